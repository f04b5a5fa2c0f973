#include "runtime/trace/recorded_communicator.h"

namespace lockstep::trace {

template <typename Collective>
Result<void> RecordedCommunicator::recorded(const char* operation, uint64_t bytes, Collective&& collective) {
  recorder_.enter("model", operation, ++sequence_, bytes);
  Result<void> done = collective();
  if (done.has_value()) recorder_.leave();
  return done;
}

Result<void> RecordedCommunicator::all_reduce(const device::TreeSum& sum, std::span<const float> roots,
                                              std::span<float> dst, device::Stream stream) {
  return recorded("all_reduce", roots.size_bytes(), [&] { return inner_->all_reduce(sum, roots, dst, stream); });
}

Result<void> RecordedCommunicator::all_gather(std::span<const std::byte> src, std::span<const int64_t> counts,
                                              std::span<std::byte> dst, device::Stream stream) {
  return recorded("all_gather", src.size(), [&] { return inner_->all_gather(src, counts, dst, stream); });
}

Result<void> RecordedCommunicator::broadcast(std::span<std::byte> bytes, int root, device::Stream stream) {
  return recorded("broadcast", root == rank() ? bytes.size() : 0,
                  [&] { return inner_->broadcast(bytes, root, stream); });
}

Result<void> RecordedCommunicator::barrier(device::Stream stream) {
  return recorded("barrier", 0, [&] { return inner_->barrier(stream); });
}

}  // namespace lockstep::trace
