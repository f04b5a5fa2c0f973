// A communicator that notes when each collective was entered and left. Apart from two clock readings a call it is the
// one behind it.
#pragma once

#include "runtime/core/clock.h"
#include "runtime/device/communicator.h"
#include "runtime/trace/timeline.h"

namespace lockstep::trace {

/// Used by one thread, but for `last_operation`. Borrows everything.
class TimedCommunicator final : public device::Communicator {
 public:
  TimedCommunicator(device::Communicator& inner, const Clock& clock, CollectiveLog& log)
      : inner_(inner), clock_(clock), log_(log), sequence_(inner.last_operation().sequence) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string name() const override { return inner_.name(); }
  Result<void> all_reduce(const device::TreeSum& sum, std::span<const float> roots, std::span<float> dst,
                          device::Stream stream) override;
  Result<void> all_gather(std::span<const std::byte> src, std::span<const int64_t> counts, std::span<std::byte> dst,
                          device::Stream stream) override;
  Result<void> broadcast(std::span<std::byte> bytes, int root, device::Stream stream) override;
  Result<void> barrier(device::Stream stream) override;
  device::OperationMark last_operation() const override { return inner_.last_operation(); }

 private:
  template <typename Collective>
  Result<void> timed(CollectiveKind kind, uint64_t bytes, Collective&& collective);

  device::Communicator& inner_;
  const Clock& clock_;
  CollectiveLog& log_;
  uint64_t sequence_;  // as the one behind it counts
};

}  // namespace lockstep::trace
