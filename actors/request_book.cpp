#include "actors/request_book.h"

#include <algorithm>
#include <span>
#include <utility>

#include "runtime/core/check.h"

namespace lockstep::actors {

using generation::FinishReason;

void RequestBook::open(const Request& request, Sink& sink) {
  const auto& parameters = request.parameters;
  const bool is_new =
      requests_
          .emplace(request.id, Open{parameters.max_new_tokens, parameters.eos_ids, request.logits, &sink, /*made=*/0})
          .second;
  LOCKSTEP_CHECK(is_new, request.id);
}

void RequestBook::note_schedule(int32_t number, Occupants occupants) {
  const bool is_new = schedules_.emplace(number, std::move(occupants)).second;
  LOCKSTEP_CHECK(is_new, number);
}

std::vector<RequestId> RequestBook::drop_schedule(int32_t number) {
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

bool RequestBook::owns(RequestId request, SlotId slot) const {
  const auto is_owner = [&](const auto& noted) { return noted.second[static_cast<size_t>(slot.value)] == request; };
  return !schedules_.empty() && std::ranges::all_of(schedules_, is_owner);
}

std::vector<RequestBook::Ended> RequestBook::take(const StepResult& result) {
  const auto schedule = schedules_.find(result.schedule);
  LOCKSTEP_CHECK(schedule != schedules_.end(), to_string(result));
  const Occupants& occupants = schedule->second;
  LOCKSTEP_CHECK(result.tokens.size() == occupants.size(), result.tokens.size(), occupants.size());
  const size_t vocabulary = result.logits.size() / occupants.size();
  std::vector<Ended> ended;
  for (size_t s = 0; s < occupants.size(); ++s) {
    const int32_t token = result.tokens[s];
    if (token < 0 || !occupants[s]) continue;
    const auto found = requests_.find(*occupants[s]);
    if (found == requests_.end()) continue;  // over: this is padding
    Open& open = found->second;
    const std::span<const float> row = std::span(result.logits).subspan(s * vocabulary, vocabulary);
    const Verdict verdict =
        open.sink->on_token(found->first, token, open.logits == Logits::kWanted ? row : std::span<const float>());
    if (const auto reason = after_token(open, token, verdict)) {
      ended.push_back({found->first, SlotId(static_cast<int32_t>(s)), *reason});
      close(ended.back().request, *reason);
    }
  }
  return ended;
}

std::optional<FinishReason> RequestBook::after_token(Open& open, int32_t token, Verdict verdict) {
  ++open.made;
  if (std::ranges::find(open.eos_ids, token) != open.eos_ids.end()) return FinishReason::kEos;
  if (verdict == Verdict::kStop) return FinishReason::kStop;
  if (open.made >= open.max_new_tokens) return FinishReason::kLength;
  return std::nullopt;
}

void RequestBook::close(RequestId request, FinishReason reason, const std::optional<Error>& error) {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return;
  Sink* sink = found->second.sink;
  requests_.erase(found);
  sink->on_finish(request, reason, error);
}

void RequestBook::fail_all(const Error& error) {
  const auto reason = error.kind == ErrorKind::kCancelled ? FinishReason::kCancelled : FinishReason::kError;
  while (!requests_.empty()) close(requests_.begin()->first, reason, error);
}

}  // namespace lockstep::actors
