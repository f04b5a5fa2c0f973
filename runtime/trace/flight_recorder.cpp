#include "runtime/trace/flight_recorder.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace lockstep::trace {
namespace {

constexpr Duration::rep kInside = std::numeric_limits<Duration::rep>::min();  // not left yet

}  // namespace

void FlightRecorder::enter(const char* group, const char* operation, uint64_t sequence, uint64_t bytes) {
  const uint64_t number = entered_.load(std::memory_order_relaxed) + 1;
  Entry& entry = ring_[(number - 1) % kCapacity];
  // The fields are stored with release, so a reader that sees one of them also sees the odd version before it.
  entry.version.store(2 * number - 1, std::memory_order_relaxed);
  entry.group.store(group, std::memory_order_release);
  entry.operation.store(operation, std::memory_order_release);
  entry.sequence.store(sequence, std::memory_order_release);
  entry.bytes.store(bytes, std::memory_order_release);
  entry.schedule.store(schedule_, std::memory_order_release);
  entry.step.store(step_, std::memory_order_release);
  entry.entered.store(clock_.now().time_since_epoch().count(), std::memory_order_release);
  entry.left.store(kInside, std::memory_order_release);
  entry.version.store(2 * number, std::memory_order_release);
  entered_.store(number, std::memory_order_release);
}

void FlightRecorder::leave() {
  const uint64_t number = entered_.load(std::memory_order_relaxed);
  if (number == 0) return;
  ring_[(number - 1) % kCapacity].left.store(clock_.now().time_since_epoch().count(), std::memory_order_release);
}

void FlightRecorder::begin_step(int32_t schedule, int32_t step) {
  schedule_ = schedule;
  step_ = step;
}

std::optional<RecordedOperation> FlightRecorder::read(uint64_t number) const {
  const auto at = [](const std::atomic<Duration::rep>& ticks) {
    return TimePoint(Duration(ticks.load(std::memory_order_acquire)));
  };
  const Entry& entry = ring_[(number - 1) % kCapacity];
  const uint64_t before = entry.version.load(std::memory_order_acquire);
  RecordedOperation operation{.group = entry.group.load(std::memory_order_acquire),
                              .operation = entry.operation.load(std::memory_order_acquire),
                              .sequence = entry.sequence.load(std::memory_order_acquire),
                              .bytes = entry.bytes.load(std::memory_order_acquire),
                              .schedule = entry.schedule.load(std::memory_order_acquire),
                              .step = entry.step.load(std::memory_order_acquire),
                              .entered = at(entry.entered),
                              .left = at(entry.left)};
  if (operation.left->time_since_epoch().count() == kInside) operation.left.reset();
  if (before != 2 * number || entry.version.load(std::memory_order_relaxed) != before) return std::nullopt;
  return operation;
}

RecordedOperation FlightRecorder::last() const {
  while (true) {
    const uint64_t number = entered_.load(std::memory_order_acquire);
    if (number == 0) return {};
    if (const auto operation = read(number)) return *operation;
  }
}

std::string FlightRecorder::to_json(const FlightFacts& facts) const {
  using Json = nlohmann::ordered_json;
  const TimePoint now = clock_.now();
  const auto unix_of = [&](TimePoint at) { return facts.unix_time - to_seconds(now - at); };
  Json operations = Json::array();
  const uint64_t entered = entered_.load(std::memory_order_acquire);
  for (uint64_t number = entered - std::min<uint64_t>(entered, kCapacity) + 1; number <= entered; ++number) {
    const std::optional<RecordedOperation> each = read(number);
    if (!each) continue;
    operations.push_back({{"group", each->group},
                          {"operation", each->operation},
                          {"sequence", each->sequence},
                          {"bytes", each->bytes},
                          {"schedule", each->schedule},
                          {"step", each->step},
                          {"entered", unix_of(each->entered)},
                          {"left", each->left ? Json(unix_of(*each->left)) : Json(nullptr)}});
  }
  const Json json = {{"rank", facts.rank},      {"host", facts.host},           {"phase", facts.phase},
                     {"why", facts.why},        {"unix_time", facts.unix_time}, {"entered", entered},
                     {"operations", operations}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::trace
