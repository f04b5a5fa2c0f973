#include "runtime/trace/timed_communicator.h"

namespace lockstep::trace {

template <typename Collective>
Result<void> TimedCommunicator::timed(CollectiveKind kind, uint64_t bytes, Collective&& collective) {
  const TimePoint enter = clock_.now();
  Result<void> done = collective();
  log_.add(kind, ++sequence_, bytes, enter, clock_.now());
  return done;
}

Result<void> TimedCommunicator::all_reduce(const device::TreeSum& sum, std::span<const float> roots,
                                           std::span<float> dst, device::Stream stream) {
  return timed(CollectiveKind::kAllReduce, roots.size_bytes(),
               [&] { return inner_.all_reduce(sum, roots, dst, stream); });
}

Result<void> TimedCommunicator::all_gather(std::span<const std::byte> src, std::span<const int64_t> counts,
                                           std::span<std::byte> dst, device::Stream stream) {
  return timed(CollectiveKind::kAllGather, src.size(), [&] { return inner_.all_gather(src, counts, dst, stream); });
}

Result<void> TimedCommunicator::broadcast(std::span<std::byte> bytes, int root, device::Stream stream) {
  return timed(CollectiveKind::kBroadcast, root == rank() ? bytes.size() : 0,
               [&] { return inner_.broadcast(bytes, root, stream); });
}

Result<void> TimedCommunicator::barrier(device::Stream stream) {
  return timed(CollectiveKind::kBarrier, 0, [&] { return inner_.barrier(stream); });
}

}  // namespace lockstep::trace
