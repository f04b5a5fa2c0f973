// A communicator with injected errors in one rank's sums, for tests.
#pragma once

#include <functional>
#include <memory>

#include "runtime/device/communicator.h"

namespace lockstep::launcher {

/// Otherwise it behaves as the inner communicator.
class DifferingCommunicator final : public device::Communicator {
 public:
  /// `is_due` is called after each sum and returns whether to change its first element.
  DifferingCommunicator(std::unique_ptr<device::Communicator> inner, std::function<bool()> is_due)
      : inner_(std::move(inner)), is_due_(std::move(is_due)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string name() const override { return inner_->name(); }
  Result<void> all_reduce(const device::TreeSum& sum, std::span<const float> roots, std::span<float> dst,
                          device::Stream stream) override {
    LOCKSTEP_TRY_VOID(inner_->all_reduce(sum, roots, dst, stream));
    if (is_due_()) dst.front() = 1.0F - dst.front();
    return ok();
  }
  std::span<float> place_for_roots(const device::TreeSum& sum, size_t elements) override {
    return inner_->place_for_roots(sum, elements);
  }
  Result<void> all_gather(std::span<const std::byte> src, std::span<const int64_t> counts, std::span<std::byte> dst,
                          device::Stream stream) override {
    return inner_->all_gather(src, counts, dst, stream);
  }
  Result<void> broadcast(std::span<std::byte> bytes, int root, device::Stream stream) override {
    return inner_->broadcast(bytes, root, stream);
  }
  Result<void> barrier(device::Stream stream) override { return inner_->barrier(stream); }
  device::OperationMark last_operation() const override { return inner_->last_operation(); }

 private:
  std::unique_ptr<device::Communicator> inner_;
  std::function<bool()> is_due_;
};

}  // namespace lockstep::launcher
