#include "engine/requests/submissions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "engine/requests/sizing.h"
#include "runtime/generation/choosers.h"

namespace lockstep::requests {
namespace {

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

Result<std::vector<std::shared_ptr<RequestState>>> Submissions::submit(std::vector<Request> requests) {
  std::vector<std::vector<Part>> parts;
  for (const Request& request : requests) {
    LOCKSTEP_TRY_VOID(check(request, serving_.model, serving_.limits));
    LOCKSTEP_TRY(parts.emplace_back(), parts_of(request, is_host_chosen(request)));
  }
  std::vector<std::shared_ptr<RequestState>> states;
  std::vector<actors::Request> all;
  for (size_t i = 0; i < requests.size(); ++i) {
    states.push_back(state_of(requests[i], parts[i]));
    open(states.back(), std::move(parts[i]), std::ssize(requests[i].prompt.ids), all);
  }
  session_->submit(std::move(all), *sink_);
  return states;
}

/// Adds the parts of a request to those that are open, and to `all`.
void Submissions::open(const std::shared_ptr<RequestState>& state, std::vector<Part> parts, int64_t prompt_tokens,
                       std::vector<actors::Request>& all) {
  std::vector<RequestId> ids;
  {
    std::lock_guard lock(mutex_);
    for (Part& part : parts) {
      part.request.id = RequestId(next_id_++);
      ids.push_back(part.request.id);
      all.push_back(part.request);
      if (on_submit) on_submit(part.request.id);
      open_.emplace(ids.back(), Entry{state, std::move(part)});
    }
    ++counters_.submitted;
    ++counters_.queued;
    counters_.prompt_tokens += prompt_tokens;
  }
  state->link({.stop =
                   [session = session_, ids] {
                     for (const RequestId id : ids) session->stop(id);
                   },
               .wait = links_.wait});
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

EngineCounters Submissions::counters() const {
  std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace lockstep::requests
