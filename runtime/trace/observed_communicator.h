// A communicator decorator with hooks at the start and end of each collective.
#pragma once

#include "runtime/device/communicator.h"
#include "runtime/trace/timeline.h"

namespace lockstep::trace {

/// Used by one thread, except `last_operation`. Borrows the inner communicator.
class ObservedCommunicator : public device::Communicator {
 public:
  int rank() const final { return inner_.rank(); }
  int size() const final { return inner_.size(); }
  std::string name() const final { return inner_.name(); }
  Result<void> all_reduce(const device::TreeSum& sum, std::span<const float> roots, std::span<float> dst,
                          device::Stream stream) final;
  std::span<float> place_for_roots(const device::TreeSum& sum, size_t elements) final {
    return inner_.place_for_roots(sum, elements);
  }
  Result<void> all_gather(std::span<const std::byte> src, std::span<const int64_t> counts, std::span<std::byte> dst,
                          device::Stream stream) final;
  Result<void> broadcast(std::span<std::byte> bytes, int root, device::Stream stream) final;
  Result<void> barrier(device::Stream stream) final;
  device::OperationMark last_operation() const final { return inner_.last_operation(); }

 protected:
  /// Numbering continues from the last operation of `inner`, to match the numbers in its messages.
  explicit ObservedCommunicator(device::Communicator& inner)
      : inner_(inner), sequence_(inner.last_operation().sequence) {}

 private:
  /// A collective with `bytes` from this rank begins; `left` follows. Neither may wait or allocate.
  virtual void entered(CollectiveKind kind, uint64_t sequence, uint64_t bytes) = 0;
  virtual void left(bool well) = 0;

  template <typename Collective>
  Result<void> observed(CollectiveKind kind, uint64_t bytes, Collective&& collective);

  device::Communicator& inner_;
  uint64_t sequence_;
};

}  // namespace lockstep::trace
