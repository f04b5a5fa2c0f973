// Suspended requests: Submissions::suspend, resume, suspended and restore.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "actors/admission.h"
#include "engine/requests/submissions.h"

namespace lockstep::requests {
namespace {

Error bad_history(std::string_view found, std::string_view expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[engine/requests] cannot go on with a request: found {}, expected {}; pass what an engine has "
                      "delivered for it, and the same options",
                      found, expected)};
}

Error callers_chooser() {
  return {ErrorKind::kUnsupported,
          "[engine/requests] cannot resume a request: found a chooser of the caller's, which cannot begin again, "
          "expected options and processors; submit it again"};
}

Error callers_code() {
  return {ErrorKind::kUnsupported,
          "[engine/requests] cannot serialize a request: found processors, criteria, a constraint or a chooser of the "
          "caller's, expected options alone; resume it in this process"};
}

Result<void> check_history(const std::vector<int32_t>& ids, const Part& part, int64_t vocabulary) {
  const shards::SlotParameters& parameters = part.request.parameters;
  if (std::ssize(ids) > parameters.max_new_tokens) {
    return bad_history(fmt::format("{} tokens", ids.size()), fmt::format("at most {}", parameters.max_new_tokens));
  }
  const auto unknown = std::ranges::find_if(ids, [&](int32_t id) { return id < 0 || id >= vocabulary; });
  if (unknown != ids.end()) return bad_history(fmt::format("token {}", *unknown), "tokens of the model");
  const auto last = ids.empty() ? ids.end() : ids.end() - 1;
  const auto end = std::ranges::find_first_of(ids.begin(), last, parameters.eos_ids.begin(), parameters.eos_ids.end());
  if (end == last || part.restarts()) return ok();
  return bad_history(fmt::format("tokens after the end token {}", *end), "none");
}

/// Lets a new chooser of `part` go on after `tokens`, unless it restarts.
Result<void> follow(const Part& part, std::span<const int32_t> tokens) {
  return part.follows ? part.request.chooser->follow(tokens) : ok();
}

/// A request from one answer's history: the same prompt and options, no functions.
Request request_of(SuspendedRequest& suspended) {
  Request request{.prompt = {std::move(suspended.ids), std::move(suspended.negative)},
                  .config = suspended.config,
                  .random_row = suspended.random_row,
                  .model_logprobs = suspended.model_logprobs,
                  .special_text = suspended.special_text,
                  .priority = suspended.priority,
                  .client = std::move(suspended.client)};
  request.prompt.masked_inside = suspended.masked_inside;
  request.prompt.embeddings = std::move(suspended.embeddings);
  return request;
}

}  // namespace

actors::Request Submissions::remaining(const Entry& entry) {
  const actors::Request& request = entry.part.request;
  if (entry.part.restarts()) return request;
  const std::vector<int32_t> made = entry.state->so_far(entry.part.first_answer);
  return made.empty() ? request : actors::rest_of(request, made);
}

bool Submissions::has_suspended() const {
  std::lock_guard lock(mutex_);
  return is_suspending_ || !suspended_.empty();
}

Result<void> Submissions::check_is_running() const {
  if (!has_suspended()) return ok();
  return Error{ErrorKind::kUnavailable,
               "[engine/requests] cannot take a request: found a suspended engine, expected a running one; "
               "resume it first"};
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

void Submissions::park(RequestId request) {
  std::lock_guard lock(mutex_);
  auto found = open_.extract(request);
  RequestState& state = *found.mapped().state;
  const auto is_of_state = [&](const Entry& entry) { return entry.state.get() == &state; };
  const bool is_first_part = std::ranges::none_of(suspended_, is_of_state);
  if (is_first_part) --(state.is_running() ? counters_.running : counters_.queued);
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
  while (!entries.empty()) {  // the parts of one request together
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
  const Result<std::vector<Part>> restarted = restart(entries);
  state->resume(restarted.has_value() ? restarted.value() : std::vector<Part>{});
  if (restarted.has_value()) return open(std::move(entries), all);
  bool is_last = false;
  for (const Entry& entry : entries) is_last = state->finish(entry.part, FinishReason::kError, restarted.error());
  {
    std::lock_guard lock(mutex_);
    ++counters_.finished;
  }
  if (is_last) state->complete();
}

Result<std::vector<Part>> Submissions::restart(std::vector<Entry>& entries) const {
  std::vector<Part> restarted;
  for (Entry& entry : entries) {
    if (!entry.part.request.chooser) continue;
    if (entry.request->chooser) return callers_chooser();
    LOCKSTEP_TRY(entry.part.request.chooser, chooser_of(*entry.request, entry.part, serving_));
    LOCKSTEP_TRY_VOID(follow(entry.part, entry.state->so_far(entry.part.first_answer)));
    if (entry.part.restarts()) restarted.push_back(entry.part);
  }
  return restarted;
}

Result<std::vector<SuspendedRequest>> Submissions::suspended() const {
  std::lock_guard lock(mutex_);
  std::vector<SuspendedRequest> requests;
  std::vector<const RequestState*> states;
  for (const Entry& entry : suspended_) {
    if (std::ranges::find(states, entry.state.get()) != states.end()) continue;
    states.push_back(entry.state.get());
    const Request& request = *entry.request;
    if (has_own_code(request)) return callers_code();
    requests.push_back({.ids = request.prompt.ids,
                        .negative = request.prompt.negative,
                        .masked_inside = request.prompt.masked_inside,
                        .embeddings = request.prompt.embeddings,
                        .config = request.config,
                        .random_row = request.random_row,
                        .model_logprobs = request.model_logprobs,
                        .special_text = request.special_text,
                        .priority = request.priority,
                        .client = request.client,
                        .answers = entry.state->history()});
  }
  return requests;
}

Result<std::vector<std::shared_ptr<RequestState>>> Submissions::restore(std::vector<SuspendedRequest> suspended) {
  LOCKSTEP_TRY_VOID(check_is_running());
  std::vector<std::shared_ptr<RequestState>> states;
  std::vector<std::vector<Entry>> requests;
  for (SuspendedRequest& one : suspended) {
    const auto request = std::make_shared<const Request>(request_of(one));
    LOCKSTEP_TRY(std::vector<Part> parts, checked_parts(*request));
    const auto& state = states.emplace_back(state_of(*request, parts));
    std::vector<Entry>& entries = requests.emplace_back();
    LOCKSTEP_TRY(entries, open_parts(state, request, std::move(parts), one.answers, Records::kOfAllTokens));
    if (entries.empty()) return bad_history("a complete answer", "an incomplete one");
  }
  submit(std::move(requests));
  return states;
}

Result<std::vector<Submissions::Entry>> Submissions::open_parts(const std::shared_ptr<RequestState>& state,
                                                                const std::shared_ptr<const Request>& request,
                                                                std::vector<Part> parts,
                                                                const std::optional<std::vector<AnswerSoFar>>& answers,
                                                                Records records) const {
  std::vector<Entry> entries;
  for (Part& part : parts) {
    const bool makes_records = part.request.chooser || part.request.logits == actors::Logits::kWanted;
    const bool begins_again = !answers || (makes_records && records == Records::kOfAllTokens);
    bool is_complete = false;
    if (!begins_again) {
      LOCKSTEP_TRY(is_complete, adopt_history(*state, part, *answers));
    }
    if (!is_complete) entries.push_back({state, request, std::move(part)});
  }
  return entries;
}

Result<bool> Submissions::adopt_history(RequestState& state, const Part& part,
                                        const std::vector<AnswerSoFar>& answers) const {
  const size_t expected = part.first_answer + part.answers;
  if (expected > answers.size()) {
    return bad_history(fmt::format("{} answers", answers.size()), fmt::format("at least {}", expected));
  }
  const std::span of_part = std::span(answers).subspan(part.first_answer, part.answers);
  for (const AnswerSoFar& answer : of_part) {
    LOCKSTEP_TRY_VOID(check_history(answer.ids, part, serving_.model.spec().vocabulary));
  }
  LOCKSTEP_TRY(const bool is_complete, state.adopt(part, of_part));
  if (!is_complete) LOCKSTEP_TRY_VOID(follow(part, of_part.front().ids));
  return is_complete;
}

}  // namespace lockstep::requests
