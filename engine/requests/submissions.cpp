#include "engine/requests/submissions.h"

#include <iterator>
#include <utility>

namespace lockstep::requests {
Submissions::~Submissions() {
  const Error gone{ErrorKind::kCancelled, "[engine/requests] the engine is gone, and the request was not done"};
  for (auto& [id, entry] : open_) {  // the session ended without finishing them
    entry.state->abandon();
    if (entry.state->finish(entry.part, FinishReason::kCancelled, gone)) entry.state->complete();
  }
  for (auto& [id, text] : texts_) {
    text->abandon();
    text->finish(gone);
  }
  for (Entry& entry : suspended_) {
    entry.state->abandon();
    entry.state->resume({});
    if (entry.state->finish(entry.part, FinishReason::kCancelled, gone)) entry.state->complete();
  }
}

void Submissions::open(actors::Session& session, actors::Sink& sink, RequestState::Links links) {
  session_ = &session;
  sink_ = &sink;
  links_ = std::move(links);
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
                          .end_ids = config.eos_token_ids,
                          .special_text = request.special_text,
                          .model_logprobs = request.model_logprobs,
                          .max_time = config.max_time ? std::optional(duration_of(*config.max_time)) : std::nullopt,
                          .keeps_logits = config.output_logits,
                          .on_token = request.on_token,
                          .clock = &serving_.clock,
                          .delivery = &delivery_},
      request.prompt.ids);
}

Result<std::vector<Part>> Submissions::checked_parts(const Request& request) const {
  LOCKSTEP_TRY_VOID(check(request, serving_.model, serving_.limits));
  return parts_of(request, serving_);
}

Result<std::vector<std::shared_ptr<RequestState>>> Submissions::submit(std::vector<Request> requests) {
  LOCKSTEP_TRY_VOID(check_is_running());
  std::vector<std::vector<Part>> parts;
  for (const Request& request : requests) {
    LOCKSTEP_TRY(parts.emplace_back(), checked_parts(request));
  }
  std::vector<std::shared_ptr<RequestState>> states;
  std::vector<std::vector<Entry>> entries(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    states.push_back(state_of(requests[i], parts[i]));
    const auto request = std::make_shared<const Request>(std::move(requests[i]));
    LOCKSTEP_TRY(entries[i], open_parts(states.back(), request, std::move(parts[i]), delivered_of(*request),
                                        Records::kOfLaterTokens));
  }
  for (size_t i = 0; i < states.size(); ++i) {
    if (entries[i].empty()) finish_at_once(*states[i]);
  }
  std::erase_if(entries, [](const std::vector<Entry>& of_one) { return of_one.empty(); });
  submit(std::move(entries));
  return states;
}

void Submissions::submit(std::vector<std::vector<Entry>> requests) {
  std::vector<actors::Request> all;
  for (std::vector<Entry>& entries : requests) {
    {
      std::lock_guard lock(mutex_);
      ++counters_.submitted;
      counters_.prompt_tokens += std::ssize(entries.front().request->prompt.ids);
    }
    open(std::move(entries), all);
  }
  if (!all.empty()) session_->submit(std::move(all), *sink_);
}

/// A request that another engine had delivered whole.
void Submissions::finish_at_once(RequestState& state) {
  {
    std::lock_guard lock(mutex_);
    ++counters_.submitted;
    ++counters_.finished;
  }
  state.complete();
}

void Submissions::open(std::vector<Entry> entries, std::vector<actors::Request>& all) {
  std::vector<RequestId> ids;
  const std::shared_ptr<RequestState> state = entries.front().state;
  {
    std::lock_guard lock(mutex_);
    for (Entry& entry : entries) {
      const RequestId id = ids.emplace_back(next_id_++);
      entry.part.request.id = id;
      all.push_back(remaining(entry));
      if (on_submit) on_submit(all.back(), entry.state->submitted(entry.part.first_answer));
      open_.emplace(id, std::move(entry));
    }
    ++counters_.queued;
  }
  state->set_number(ids.front().value);
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
  if (text->ids().size() == 1) {  // a single token has no score
    ++counters_.finished;
    return text;
  }
  const RequestId id(next_id_++);
  all.push_back({.id = id, .ids = text->ids(), .parameters = {}, .task = actors::Task::kScore});
  if (on_submit) on_submit(all.back(), serving_.clock.now());
  texts_.emplace(id, text);
  ++counters_.queued;
  text->link({.stop = [session = session_, id] { session->stop(id); }, .wait = links_.wait, .delivery = &delivery_});
  return text;
}

Result<std::vector<std::shared_ptr<TextScores>>> Submissions::submit_texts(std::span<const std::vector<int32_t>> texts,
                                                                           int64_t top) {
  LOCKSTEP_TRY_VOID(check_is_running());
  for (const std::vector<int32_t>& ids : texts) {
    LOCKSTEP_TRY_VOID(check_text(ids, top, serving_.model, serving_.limits));
  }
  std::vector<std::shared_ptr<TextScores>> opened;
  std::vector<actors::Request> all;
  for (const std::vector<int32_t>& ids : texts) opened.push_back(open_text(ids, top, all));
  if (!all.empty()) session_->submit(std::move(all), *sink_);
  return opened;
}

int64_t Submissions::number_of(RequestId part) const {
  std::lock_guard lock(mutex_);
  const auto found = open_.find(part);
  return found == open_.end() ? -1 : found->second.state->number();
}

void Submissions::on_reused(RequestId request, int64_t tokens) {
  Entry& entry = at(request);
  const int64_t of_prompt = entry.state->note_cached(entry.part, tokens);
  std::lock_guard lock(mutex_);
  counters_.reused_tokens += of_prompt;
}

void Submissions::on_score(RequestId request, std::span<const float> row, std::span<const float> logits) {
  std::shared_ptr<TextScores> text;
  {
    std::lock_guard lock(mutex_);
    text = texts_.at(request);
  }
  text->take(row, logits);
}

/// Returns whether `request` was a text.
bool Submissions::finish_text(RequestId request, const std::optional<Error>& error) {
  std::shared_ptr<TextScores> text;
  {
    std::lock_guard lock(mutex_);
    auto found = texts_.extract(request);
    if (found.empty()) return false;
    text = std::move(found.mapped());
    --(text->has_started() ? counters_.running : counters_.queued);
    ++counters_.finished;
  }
  text->finish(error);
  return true;
}

void Submissions::on_start(RequestId request) {
  {
    std::lock_guard lock(mutex_);
    if (const auto text = texts_.find(request); text != texts_.end()) {
      text->second->start();
      --counters_.queued;
      ++counters_.running;
      return;
    }
  }
  const bool is_first = at(request).state->start();
  if (!is_first) return;
  std::lock_guard lock(mutex_);
  --counters_.queued;
  ++counters_.running;
}

actors::Verdict Submissions::on_token(RequestId request, const actors::MadeToken& token) {
  Entry& entry = at(request);
  const actors::Verdict verdict = entry.state->take(entry.part, token);
  std::lock_guard lock(mutex_);
  counters_.new_tokens += entry.state->take_count();
  return verdict;
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
    --(state->is_running() ? counters_.running : counters_.queued);
    ++counters_.finished;
    counters_.new_tokens += state->take_count();
  }
  state->complete();
}

void Submissions::on_abandoned(RequestId request, const Error& error) {
  std::shared_ptr<RequestState> state;  // null: it is a text
  {
    std::lock_guard lock(mutex_);
    if (const auto text = texts_.find(request); text != texts_.end()) {
      text->second->abandon();
    } else {
      state = open_.at(request).state;
    }
  }
  if (state && serving_.on_loss == OnLoss::kSuspend) {
    state->suspend(error);
    return park(request);
  }
  if (state) state->abandon();
  Sink::on_abandoned(request, error);
}

EngineCounters Submissions::counters() const {
  std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace lockstep::requests
