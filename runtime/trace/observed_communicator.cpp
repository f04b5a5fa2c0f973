#include "runtime/trace/observed_communicator.h"

namespace lockstep::trace {

template <typename Collective>
Result<void> ObservedCommunicator::observed(CollectiveKind kind, uint64_t bytes, Collective&& collective) {
  entered(kind, ++sequence_, bytes);
  Result<void> done = collective();
  left(done.has_value());
  return done;
}

Result<void> ObservedCommunicator::all_reduce(const device::TreeSum& sum, std::span<const float> roots,
                                              std::span<float> dst, device::Stream stream) {
  return observed(CollectiveKind::kAllReduce, roots.size_bytes(),
                  [&] { return inner_.all_reduce(sum, roots, dst, stream); });
}

Result<void> ObservedCommunicator::all_gather(std::span<const std::byte> src, std::span<const int64_t> counts,
                                              std::span<std::byte> dst, device::Stream stream) {
  return observed(CollectiveKind::kAllGather, src.size(), [&] { return inner_.all_gather(src, counts, dst, stream); });
}

Result<void> ObservedCommunicator::broadcast(std::span<std::byte> bytes, int root, device::Stream stream) {
  return observed(CollectiveKind::kBroadcast, root == rank() ? bytes.size() : 0,
                  [&] { return inner_.broadcast(bytes, root, stream); });
}

Result<void> ObservedCommunicator::barrier(device::Stream stream) {
  return observed(CollectiveKind::kBarrier, 0, [&] { return inner_.barrier(stream); });
}

}  // namespace lockstep::trace
