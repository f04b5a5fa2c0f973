#include "engine/requests/submissions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "actors/admission.h"
#include "engine/requests/sizing.h"
#include "runtime/generation/choosers.h"

namespace lockstep::requests {
namespace {

Error bad_history(size_t found, size_t expected) {
  return {
      ErrorKind::kInvalidArgument,
      fmt::format("[engine/requests] cannot restore a request: found a history of {}, expected one that fits {}; pass "
                  "what Engine::suspended returned, and the same options",
                  found, expected)};
}

shards::SlotParameters parameters_of(const Request& request, int32_t budget, uint64_t row) {
  const std::vector<int32_t>& eos = request.config.eos_token_ids;
  return {.sampling = request.config.sampling(row),
          .max_new_tokens = budget,
          .eos_ids = eos,
          .pad_id = request.config.pad_token_id.value_or(eos.empty() ? 0 : eos.front()),
          .min_new_tokens = request.config.least_new_tokens(std::ssize(request.prompt.ids))};
}

}  // namespace

Submissions::~Submissions() {
  const Error gone{ErrorKind::kCancelled, "[engine/requests] the engine is gone, and the request was not done"};
  for (auto& [id, entry] : open_) {  // the session has ended without a word about them
    if (entry.state->finish(entry.part, FinishReason::kCancelled, gone)) entry.state->complete();
  }
  for (auto& [id, text] : texts_) text->finish(gone);
  for (Entry& entry : suspended_) {
    entry.state->resume({});
    if (entry.state->finish(entry.part, FinishReason::kCancelled, gone)) entry.state->complete();
  }
}

void Submissions::open(actors::Session& session, actors::Sink& sink, RequestState::Links links) {
  session_ = &session;
  sink_ = &sink;
  links_ = std::move(links);
}

Result<std::shared_ptr<TokenChooser>> Submissions::chooser_of(const Request& request, int32_t budget,
                                                              uint64_t row) const {
  if (request.chooser) return request.chooser;
  generation::ChooserRequest wanted{.config = request.config,
                                    .prompt = request.prompt.ids,
                                    .negative_prompt = request.prompt.negative,
                                    .vocabulary = serving_.model.spec().vocabulary,
                                    .max_length = std::ssize(request.prompt.ids) + budget,
                                    .row = row,
                                    .clock = &serving_.clock,
                                    .tokenizer = request.config.num_beams > 1 ? serving_.tokenizer : nullptr,
                                    .processors = {request.processors, request.allowed_tokens},
                                    .criteria = request.criteria};
  LOCKSTEP_TRY(std::unique_ptr<TokenChooser> made, generation::make_chooser(std::move(wanted)));
  return std::shared_ptr<TokenChooser>(std::move(made));  // the session keeps it as well
}

/// One part for each answer, or one for all where beams find them together.
Result<std::vector<Part>> Submissions::parts_of(const Request& request, bool by_host) const {
  const GenerationConfig& config = request.config;
  LOCKSTEP_TRY(const int32_t budget, budget_of(request, serving_.model, serving_.limits.capacity));
  const bool beams = config.num_beams > 1;
  const auto answers = request.chooser ? size_t{1} : static_cast<size_t>(config.num_return_sequences);
  std::vector<Part> parts;
  for (size_t copy = 0; copy < (beams ? 1 : answers); ++copy) {
    const uint64_t row = request.random_row + copy;
    Part part{.request = {.id = {}, .ids = request.prompt.ids, .parameters = parameters_of(request, budget, row)},
              .first_answer = copy,
              .answers = beams ? answers : 1,
              .as_made = !beams};
    if (config.output_logits && !by_host) part.request.logits = actors::Logits::kWanted;
    if (request.on_token) part.request.delivery = actors::Delivery::kAtOnce;
    if (by_host) {
      LOCKSTEP_TRY(part.request.chooser, chooser_of(request, budget, row));
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

std::shared_ptr<RequestState> Submissions::state_of(const Request& request, const std::vector<Part>& parts) {
  size_t answers = 0;
  for (const Part& part : parts) answers += part.answers;
  const GenerationConfig& config = request.config;
  return std::make_shared<RequestState>(
      RequestState::Setup{.answers = answers,
                          .parts = parts.size(),
                          .tokenizer = serving_.tokenizer,
                          .stop_strings = config.stop_strings,
                          .max_time = config.max_time ? std::optional(duration_of(*config.max_time)) : std::nullopt,
                          .keeps_logits = config.output_logits,
                          .on_token = request.on_token,
                          .clock = &serving_.clock,
                          .delivery = &delivery_});
}

namespace {

Error is_suspended() {
  return {ErrorKind::kUnavailable,
          "[engine/requests] cannot take a request: found an engine that is suspended, expected one that works; resume "
          "it first"};
}

}  // namespace

Result<std::vector<std::shared_ptr<RequestState>>> Submissions::submit(std::vector<Request> requests) {
  if (has_suspended()) return is_suspended();
  std::vector<std::vector<Part>> parts;
  for (const Request& request : requests) {
    LOCKSTEP_TRY_VOID(check(request, serving_.model, serving_.limits));
    LOCKSTEP_TRY(parts.emplace_back(), parts_of(request, is_host_chosen(request)));
  }
  std::vector<std::shared_ptr<RequestState>> states;
  std::vector<actors::Request> all;
  for (size_t i = 0; i < requests.size(); ++i) {
    states.push_back(state_of(requests[i], parts[i]));
    const auto request = std::make_shared<const Request>(std::move(requests[i]));
    std::vector<Entry> entries;
    for (Part& part : parts[i]) entries.push_back({states.back(), request, std::move(part)});
    {
      std::lock_guard lock(mutex_);
      ++counters_.submitted;
      counters_.prompt_tokens += std::ssize(request->prompt.ids);
    }
    open(std::move(entries), all);
  }
  session_->submit(std::move(all), *sink_);
  return states;
}

Result<actors::Request> Submissions::rest_of(const Entry& entry) const {
  actors::Request request = entry.part.request;
  if (begins_again(entry.part)) return request;
  const std::vector<int32_t> made = entry.state->so_far(entry.part.first_answer);
  return made.empty() ? request : actors::rest_of(std::move(request), made);
}

void Submissions::open(std::vector<Entry> entries, std::vector<actors::Request>& all) {
  std::vector<RequestId> ids;
  const std::shared_ptr<RequestState> state = entries.front().state;
  {
    std::lock_guard lock(mutex_);
    for (Entry& entry : entries) {
      const RequestId id = ids.emplace_back(next_id_++);
      entry.part.request.id = id;
      all.push_back(rest_of(entry).value());
      if (on_submit) on_submit(id);
      open_.emplace(id, std::move(entry));
    }
    ++counters_.queued;
  }
  state->link({.stop =
                   [session = session_, ids] {
                     for (const RequestId id : ids) session->stop(id);
                   },
               .wait = links_.wait});
}

bool Submissions::has_suspended() const {
  std::lock_guard lock(mutex_);
  return is_suspending_ || !suspended_.empty();
}

void Submissions::suspend() {
  std::vector<std::pair<RequestId, std::shared_ptr<RequestState>>> open;
  std::vector<RequestId> texts;
  {
    std::lock_guard lock(mutex_);
    is_suspending_ = true;
    for (const auto& [id, entry] : open_) open.emplace_back(id, entry.state);
    for (const auto& [id, text] : texts_) texts.push_back(id);
  }
  const Error why{ErrorKind::kUnavailable,
                  "[engine/requests] the request is suspended; resume the engine, or restore the request elsewhere"};
  for (const auto& [id, state] : open) state->suspend(why);
  for (const auto& [id, state] : open) session_->stop(id);
  for (const RequestId id : texts) session_->stop(id);
}

/// Keeps a request that its session leaves.
void Submissions::park(RequestId request) {
  std::lock_guard lock(mutex_);
  auto found = open_.extract(request);
  RequestState& state = *found.mapped().state;
  const auto is_of_state = [&](const Entry& entry) { return entry.state.get() == &state; };
  if (std::ranges::none_of(suspended_, is_of_state)) --(state.has_started() ? counters_.running : counters_.queued);
  const auto id_of = [](const Entry& entry) { return entry.part.request.id; };
  suspended_.insert(std::ranges::upper_bound(suspended_, request, {}, id_of), std::move(found.mapped()));
}

void Submissions::resume() {
  std::vector<Entry> entries;
  {
    std::lock_guard lock(mutex_);
    is_suspending_ = false;
    entries = std::exchange(suspended_, {});
  }
  std::vector<actors::Request> all;
  while (!entries.empty()) {  // the parts of one request after the other
    const std::shared_ptr<RequestState> state = entries.front().state;
    const auto others =
        std::stable_partition(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.state == state; });
    std::vector<Entry> of_one(std::make_move_iterator(entries.begin()), std::make_move_iterator(others));
    entries.erase(entries.begin(), others);
    resume(std::move(of_one), all);
  }
  if (!all.empty()) session_->submit(std::move(all), *sink_);
}

void Submissions::resume(std::vector<Entry> entries, std::vector<actors::Request>& all) {
  const std::shared_ptr<RequestState> state = entries.front().state;
  std::vector<Part> replayed;
  std::optional<Error> refused;
  for (Entry& entry : entries) {
    if (!begins_again(entry.part)) continue;
    if (entry.request->chooser) {
      refused = Error{ErrorKind::kUnsupported,
                      "[engine/requests] cannot resume a request: found a chooser of the caller's, which cannot begin "
                      "again, expected options and processors; submit it anew"};
      break;
    }
    auto chooser = chooser_of(*entry.request, entry.part.request.parameters.max_new_tokens,
                              entry.request->random_row + entry.part.first_answer);
    if (!chooser.has_value()) {
      refused = chooser.error();
      break;
    }
    entry.part.request.chooser = std::move(chooser).assume_value();
    replayed.push_back(entry.part);
  }
  state->resume(replayed);
  if (!refused) return open(std::move(entries), all);
  bool is_last = false;
  for (const Entry& entry : entries) is_last = state->finish(entry.part, FinishReason::kError, refused);
  {
    std::lock_guard lock(mutex_);
    ++counters_.finished;
  }
  if (is_last) state->complete();
}

Result<std::vector<SuspendedRequest>> Submissions::suspended() const {
  std::lock_guard lock(mutex_);
  std::vector<SuspendedRequest> requests;
  std::vector<const RequestState*> states;
  for (const Entry& entry : suspended_) {
    if (std::ranges::find(states, entry.state.get()) != states.end()) continue;
    states.push_back(entry.state.get());
    const Request& request = *entry.request;
    if (has_own_code(request)) {
      return Error{
          ErrorKind::kUnsupported,
          "[engine/requests] cannot write a request down: found processors, criteria, a constraint or a chooser "
          "of the caller's, expected options alone; resume it in this process"};
    }
    requests.push_back({.ids = request.prompt.ids,
                        .negative = request.prompt.negative,
                        .masked_inside = request.prompt.masked_inside,
                        .config = request.config,
                        .random_row = request.random_row,
                        .answers = entry.state->history()});
  }
  return requests;
}

Result<std::vector<std::shared_ptr<RequestState>>> Submissions::restore(std::vector<SuspendedRequest> suspended) {
  if (has_suspended()) return is_suspended();
  std::vector<std::shared_ptr<RequestState>> states;
  std::vector<std::vector<Entry>> requests;
  for (SuspendedRequest& one : suspended) {
    auto request = std::make_shared<Request>(Request{
        .prompt = {std::move(one.ids), std::move(one.negative)}, .config = one.config, .random_row = one.random_row});
    request->prompt.masked_inside = one.masked_inside;
    LOCKSTEP_TRY_VOID(check(*request, serving_.model, serving_.limits));
    LOCKSTEP_TRY(std::vector<Part> parts, parts_of(*request, is_host_chosen(*request)));
    const auto& state = states.emplace_back(state_of(*request, parts));
    std::vector<Entry>& entries = requests.emplace_back();
    for (Part& part : parts) {
      LOCKSTEP_TRY(const bool is_open, adopt_history(*state, part, one.answers));
      if (is_open) entries.push_back({state, request, std::move(part)});
    }
  }
  std::vector<actors::Request> all;
  for (std::vector<Entry>& entries : requests) {
    if (entries.empty()) return bad_history(0, 1);  // nothing of it is open
    {
      std::lock_guard lock(mutex_);
      ++counters_.submitted;
      counters_.prompt_tokens += std::ssize(entries.front().request->prompt.ids);
    }
    open(std::move(entries), all);
  }
  session_->submit(std::move(all), *sink_);
  return states;
}

/// Whether something is left to do for `part`. What begins again has no history: it is made anew.
Result<bool> Submissions::adopt_history(RequestState& state, const Part& part,
                                        const std::vector<AnswerSoFar>& answers) const {
  if (part.first_answer + part.answers > answers.size())
    return bad_history(answers.size(), part.first_answer + part.answers);
  const AnswerSoFar& so_far = answers[part.first_answer];
  const bool needs_logits = part.request.logits == actors::Logits::kWanted;
  if (begins_again(part) || needs_logits) return true;
  const bool fits = std::ssize(so_far.ids) < part.request.parameters.max_new_tokens || so_far.reason;
  const int64_t vocabulary = serving_.model.spec().vocabulary;
  const bool is_known = std::ranges::all_of(so_far.ids, [&](int32_t id) { return id >= 0 && id < vocabulary; });
  if (!fits || !is_known)
    return bad_history(so_far.ids.size(), static_cast<size_t>(part.request.parameters.max_new_tokens));
  LOCKSTEP_TRY_VOID(state.adopt_ids(part.first_answer, so_far.ids, so_far.reason));
  if (so_far.reason) state.finish_adopted();
  return !so_far.reason;
}

Submissions::Entry& Submissions::at(RequestId request) {
  std::lock_guard lock(mutex_);
  return open_.at(request);
}

std::shared_ptr<TextScores> Submissions::open_text(std::vector<int32_t> ids, int64_t top,
                                                   std::vector<actors::Request>& all) {
  auto text = std::make_shared<TextScores>(std::move(ids), top);  // shared with the sink, which may end later
  std::lock_guard lock(mutex_);
  ++counters_.submitted;
  counters_.prompt_tokens += std::ssize(text->ids());
  if (text->ids().size() == 1) {  // nothing predicts it
    ++counters_.finished;
    return text;
  }
  const RequestId id(next_id_++);
  all.push_back({.id = id, .ids = text->ids(), .parameters = {}, .task = actors::Task::kScore});
  if (on_submit) on_submit(id);
  texts_.emplace(id, text);
  ++counters_.running;
  return text;
}

Result<std::vector<std::vector<TokenScore>>> Submissions::score(std::span<const std::vector<int32_t>> texts,
                                                                int64_t top) {
  for (const std::vector<int32_t>& ids : texts) {
    LOCKSTEP_TRY_VOID(check_text(ids, top, serving_.model, serving_.limits));
  }
  std::vector<std::shared_ptr<TextScores>> opened;
  std::vector<actors::Request> all;
  for (const std::vector<int32_t>& ids : texts) opened.push_back(open_text(ids, top, all));
  if (!all.empty()) session_->submit(std::move(all), *sink_);
  std::vector<std::vector<TokenScore>> scores;
  for (const auto& text : opened) {
    LOCKSTEP_TRY(scores.emplace_back(), text->wait(links_.wait));
  }
  return scores;
}

void Submissions::on_reused(RequestId, int64_t tokens) {
  std::lock_guard lock(mutex_);
  counters_.reused_tokens += tokens;
}

void Submissions::on_score(RequestId request, std::span<const float> row) {
  std::shared_ptr<TextScores> text;
  {
    std::lock_guard lock(mutex_);
    text = texts_.at(request);
  }
  text->take(row);
}

/// Whether `request` was a text.
bool Submissions::finish_text(RequestId request, const std::optional<Error>& error) {
  std::shared_ptr<TextScores> text;
  {
    std::lock_guard lock(mutex_);
    auto found = texts_.extract(request);
    if (found.empty()) return false;
    text = std::move(found.mapped());
    --counters_.running;
    ++counters_.finished;
  }
  text->finish(error);
  return true;
}

void Submissions::on_start(RequestId request) {
  {
    std::lock_guard lock(mutex_);
    if (texts_.contains(request)) return;
  }
  const bool is_first = at(request).state->start();
  if (!is_first) return;
  std::lock_guard lock(mutex_);
  --counters_.queued;
  ++counters_.running;
}

actors::Verdict Submissions::on_token(RequestId request, const actors::MadeToken& token) {
  Entry& entry = at(request);
  return entry.state->take(entry.part, token);
}

void Submissions::on_finish(RequestId request, generation::FinishReason reason, const std::optional<Error>& error) {
  if (finish_text(request, error)) return;
  Entry& entry = at(request);
  const std::shared_ptr<RequestState> state = entry.state;
  bool parks = false;
  {
    std::lock_guard lock(mutex_);
    parks = is_suspending_ && !error;
  }
  if (parks && !state->has_ended(entry.part, reason)) return park(request);
  const bool is_last = state->finish(entry.part, reason, error);
  {
    std::lock_guard lock(mutex_);
    open_.erase(request);
    if (!is_last) return;
    --(state->has_started() ? counters_.running : counters_.queued);
    ++counters_.finished;
    counters_.new_tokens += state->tokens();
  }
  state->complete();
}

void Submissions::on_abandoned(RequestId request, const Error& error) {
  if (finish_text(request, error)) return;
  if (serving_.on_loss == OnLoss::kFail) return Sink::on_abandoned(request, error);
  at(request).state->suspend(error);
  park(request);
}

EngineCounters Submissions::counters() const {
  std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace lockstep::requests
