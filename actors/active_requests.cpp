#include "actors/active_requests.h"

#include <algorithm>
#include <span>
#include <utility>

#include "runtime/core/check.h"

namespace lockstep::actors {

using generation::FinishReason;

void ActiveRequests::open(const Request& request, Sink& sink) {
  const shards::SlotParameters& parameters = request.parameters;
  const bool is_text = request.task == Task::kScore;
  const Open open{
      .budget = is_text ? std::ssize(request.ids) - 1 : int64_t{parameters.max_new_tokens} - parameters.first_output,
      .eos_ids = parameters.eos_ids,
      .logits = request.logits,
      .host_chosen = request.chooser != nullptr,
      .sink = &sink,
      .part = {}};
  const bool is_new = requests_.emplace(request.id, open).second;
  LOCKSTEP_CHECK(is_new, request.id);
}

void ActiveRequests::divide(const Request& request, int64_t tokens) {
  requests_.at(request.id).part = Part{.request = request, .size = tokens, .tokens = {}};
}

void ActiveRequests::note_schedule(int32_t number, Occupants occupants) {
  const auto [schedule, is_new] = schedules_.emplace(number, std::move(occupants));
  LOCKSTEP_CHECK(is_new, number);
  for (const std::optional<RequestId>& request : schedule->second) {
    const auto found = request ? requests_.find(*request) : requests_.end();
    if (found == requests_.end() || std::exchange(found->second.has_started, true)) continue;
    found->second.sink->on_start(*request);
  }
}

void ActiveRequests::note_reused(RequestId request, int64_t tokens) {
  if (const auto found = requests_.find(request); found != requests_.end()) {
    found->second.sink->on_reused(request, tokens);
  }
}

std::vector<RequestId> ActiveRequests::drop_schedule(int32_t number) {
  const auto schedule = schedules_.extract(number);
  LOCKSTEP_CHECK(!schedule.empty(), number);
  std::vector<RequestId> left;
  for (const auto& occupant : schedule.mapped()) {
    if (!occupant || !has(*occupant)) continue;
    const auto holds = [&](const auto& noted) {
      return std::ranges::find(noted.second, occupant) != noted.second.end();
    };
    if (std::ranges::none_of(schedules_, holds)) left.push_back(*occupant);
  }
  return left;
}

bool ActiveRequests::owns(RequestId request, SlotId slot) const {
  const auto is_owner = [&](const auto& noted) { return noted.second[static_cast<size_t>(slot.value)] == request; };
  return !schedules_.empty() && std::ranges::all_of(schedules_, is_owner);
}

ActiveRequests::Taken ActiveRequests::take(const StepResult& result) {
  const auto schedule = schedules_.find(result.schedule);
  LOCKSTEP_CHECK(schedule != schedules_.end(), to_string(result));
  const Occupants& occupants = schedule->second;
  LOCKSTEP_CHECK(result.tokens.size() % occupants.size() == 0, result.tokens.size(), occupants.size());
  Taken taken;
  for (size_t s = 0; s < occupants.size(); ++s) {
    if (occupants[s]) take_slot(result, s, *occupants[s], taken);
  }
  for (const HostChoice& choice : result.choices) take_choice(choice, result.made, taken);
  if (result.scored) take_scores(result.schedule, *result.scored, taken);
  return taken;
}

void ActiveRequests::take_scores(int32_t schedule, const ScoredRows& scored, Taken& taken) {
  const Occupants& occupants = schedules_.at(schedule);
  const std::vector<int32_t>& slots = scored.slot;
  for (size_t row = 0; row < slots.size(); ++row) {
    const std::optional<RequestId>& request = occupants[static_cast<size_t>(slots[row])];
    const auto found = request ? requests_.find(*request) : requests_.end();
    if (found == requests_.end()) continue;
    const auto of_row = [&](const std::vector<float>& values) {
      const size_t columns = values.size() / slots.size();
      return std::span(values).subspan(row * columns, columns);
    };
    found->second.sink->on_score(*request, of_row(scored.scores), of_row(scored.logits));
    if (--found->second.budget == 0) end(*request, FinishReason::kLength, std::nullopt, taken);
  }
}

/// The row of `slot`; empty without one.
std::span<const float> ActiveRequests::logits_of(const StepResult& result, size_t slot) {
  const auto found = std::ranges::find(result.logits_of, SlotId(static_cast<int32_t>(slot)));
  if (found == result.logits_of.end()) return {};
  const size_t vocabulary = result.logits.size() / result.logits_of.size();
  return std::span(result.logits)
      .subspan(static_cast<size_t>(found - result.logits_of.begin()) * vocabulary, vocabulary);
}

/// The tokens of one slot up to the one that ends its request; later tokens of drafts are dropped.
void ActiveRequests::take_slot(const StepResult& result, size_t slot, RequestId request, Taken& taken) {
  const size_t slots = schedules_.at(result.schedule).size();
  const size_t width = result.tokens.size() / slots;
  for (const int32_t token : std::span(result.tokens).subspan(slot * width, width)) {
    const auto found = requests_.find(request);
    if (token < 0 || found == requests_.end() || result.schedule < found->second.from_schedule) return;
    Open& open = found->second;
    const bool wants_logits = open.logits == Logits::kWanted;
    const Verdict verdict =
        open.sink->on_token(request, {.id = token,
                                      .made = result.made,
                                      .logits = wants_logits ? logits_of(result, slot) : std::span<const float>()});
    taken.made.emplace_back(request, token);
    if (const auto reason = after_token(open, token, verdict)) return end(request, *reason, std::nullopt, taken);
    if (end_part(open, token, taken)) return;
  }
}

void ActiveRequests::take_choice(const HostChoice& choice, TimePoint made, Taken& taken) {
  const auto found = requests_.find(choice.request);
  if (found == requests_.end()) return;
  for (const int32_t token : choice.fed.empty() ? choice.certain : choice.fed) {
    taken.made.emplace_back(choice.request, token);
  }
  for (size_t i = 0; i < choice.certain.size(); ++i) {
    const Verdict verdict = found->second.sink->on_token(
        choice.request,
        {.id = choice.certain[i], .made = made, .record = i < choice.records.size() ? choice.records[i] : nullptr});
    if (verdict == Verdict::kStop && !choice.finished) {
      return end(choice.request, FinishReason::kStop, std::nullopt, taken);
    }
  }
  if (choice.finished) end(choice.request, *choice.finished, choice.error, taken);
}

void ActiveRequests::end(RequestId request, FinishReason reason, const std::optional<Error>& error, Taken& taken) {
  taken.ended.push_back({request, reason});
  close(request, reason, error);
}

/// Whether `token` was the last of the request's first part. Its slot makes padding until the rest runs.
bool ActiveRequests::end_part(Open& open, int32_t token, Taken& taken) const {
  if (!open.part) return false;
  open.part->tokens.push_back(token);
  if (std::ssize(open.part->tokens) < open.part->size) return false;
  taken.rests.push_back(rest_of(std::move(open.part->request), open.part->tokens));
  open.part.reset();
  open.from_schedule = schedules_.rbegin()->first + 1;
  return true;
}

std::optional<FinishReason> ActiveRequests::after_token(Open& open, int32_t token, Verdict verdict) {
  --open.budget;
  if (std::ranges::find(open.eos_ids, token) != open.eos_ids.end()) return FinishReason::kEos;
  if (verdict == Verdict::kStop) return FinishReason::kStop;
  if (open.budget == 0) return FinishReason::kLength;
  return std::nullopt;
}

Sink* ActiveRequests::remove(RequestId request) {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return nullptr;
  Sink* const sink = found->second.sink;
  if (found->second.host_chosen && choosers_ != nullptr) choosers_->close(request);
  requests_.erase(found);
  return sink;
}

void ActiveRequests::close(RequestId request, FinishReason reason, const std::optional<Error>& error) {
  if (Sink* const sink = remove(request)) sink->on_finish(request, reason, error);
}

void ActiveRequests::fail_all(const Error& error) {
  while (!requests_.empty()) {
    const RequestId request = requests_.begin()->first;
    remove(request)->on_abandoned(request, error);
  }
}

}  // namespace lockstep::actors
