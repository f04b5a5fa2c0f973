#include "runtime/trace/flight_recorder.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace lockstep::trace {

void FlightRecorder::enter(const char* group, const char* operation, uint64_t sequence, uint64_t bytes) {
  const TimePoint now = clock_.now();
  std::lock_guard lock(mutex_);
  ring_[entered_++ % kCapacity] = {.group = group,
                                   .operation = operation,
                                   .sequence = sequence,
                                   .bytes = bytes,
                                   .schedule = schedule_,
                                   .step = step_,
                                   .entered = now,
                                   .left = std::nullopt};
}

void FlightRecorder::leave() {
  const TimePoint now = clock_.now();
  std::lock_guard lock(mutex_);
  if (entered_ > 0) ring_[(entered_ - 1) % kCapacity].left = now;
}

void FlightRecorder::begin_step(int32_t schedule, int32_t step) {
  std::lock_guard lock(mutex_);
  schedule_ = schedule;
  step_ = step;
}

RecordedOperation FlightRecorder::last() const {
  std::lock_guard lock(mutex_);
  return entered_ == 0 ? RecordedOperation{} : ring_[(entered_ - 1) % kCapacity];
}

std::string FlightRecorder::to_json(const FlightFacts& facts) const {
  using Json = nlohmann::ordered_json;
  const TimePoint now = clock_.now();
  const auto unix_of = [&](TimePoint at) { return facts.unix_time - to_seconds(now - at); };
  Json operations = Json::array();
  std::lock_guard lock(mutex_);
  for (uint64_t i = entered_ - std::min<uint64_t>(entered_, kCapacity); i < entered_; ++i) {
    const RecordedOperation& each = ring_[i % kCapacity];
    operations.push_back({{"group", each.group},
                          {"operation", each.operation},
                          {"sequence", each.sequence},
                          {"bytes", each.bytes},
                          {"schedule", each.schedule},
                          {"step", each.step},
                          {"entered", unix_of(each.entered)},
                          {"left", each.left ? Json(unix_of(*each.left)) : Json(nullptr)}});
  }
  const Json json = {{"rank", facts.rank},      {"host", facts.host},           {"phase", facts.phase},
                     {"why", facts.why},        {"unix_time", facts.unix_time}, {"entered", entered_},
                     {"operations", operations}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::trace
