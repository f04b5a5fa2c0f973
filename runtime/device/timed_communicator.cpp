#include "runtime/device/timed_communicator.h"

#include <algorithm>

namespace lockstep::device {

CollectiveSplit split_times(std::span<const CollectiveTimes> own, std::span<const TimePoint> last_entries,
                            int32_t tag) {
  LOCKSTEP_CHECK(own.size() == last_entries.size(), own.size(), last_entries.size());
  CollectiveSplit split;
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i].tag != tag) continue;
    const TimePoint all_there = std::clamp(last_entries[i], own[i].enter, own[i].leave);
    split.waiting += all_there - own[i].enter;
    split.communication += own[i].leave - all_there;
  }
  return split;
}

TimedCommunicator::TimedCommunicator(Communicator& inner, const Clock& clock, size_t capacity)
    : inner_(inner), clock_(clock) {
  times_.reserve(capacity);
}

void TimedCommunicator::restart() {
  times_.clear();
  dropped_ = 0;
}

template <typename Collective>
Result<void> TimedCommunicator::timed(Collective&& collective) {
  const TimePoint enter = clock_.now();
  Result<void> done = collective();
  const TimePoint leave = clock_.now();
  if (times_.size() < times_.capacity()) {
    times_.push_back({tag_, enter, leave});
  } else {
    ++dropped_;
  }
  return done;
}

Result<void> TimedCommunicator::all_reduce(const TreeSum& sum, std::span<const float> roots, std::span<float> dst,
                                           Stream stream) {
  return timed([&] { return inner_.all_reduce(sum, roots, dst, stream); });
}

Result<void> TimedCommunicator::all_gather(std::span<const std::byte> src, std::span<const int64_t> counts,
                                           std::span<std::byte> dst, Stream stream) {
  return timed([&] { return inner_.all_gather(src, counts, dst, stream); });
}

Result<void> TimedCommunicator::broadcast(std::span<std::byte> bytes, int root, Stream stream) {
  return timed([&] { return inner_.broadcast(bytes, root, stream); });
}

Result<void> TimedCommunicator::barrier(Stream stream) {
  return timed([&] { return inner_.barrier(stream); });
}

}  // namespace lockstep::device
