// A communicator that tells a flight recorder what it enters and leaves. Apart from that it is the one behind it.
#pragma once

#include <memory>

#include "runtime/device/communicator.h"
#include "runtime/trace/flight_recorder.h"

namespace lockstep::trace {

/// Used by one thread, but for `last_operation`. Borrows the recorder.
class RecordedCommunicator final : public device::Communicator {
 public:
  RecordedCommunicator(std::unique_ptr<device::Communicator> inner, FlightRecorder& recorder)
      : inner_(std::move(inner)), recorder_(recorder), sequence_(inner_->last_operation().sequence) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string name() const override { return inner_->name(); }
  Result<void> all_reduce(const device::TreeSum& sum, std::span<const float> roots, std::span<float> dst,
                          device::Stream stream) override;
  Result<void> all_gather(std::span<const std::byte> src, std::span<const int64_t> counts, std::span<std::byte> dst,
                          device::Stream stream) override;
  Result<void> broadcast(std::span<std::byte> bytes, int root, device::Stream stream) override;
  Result<void> barrier(device::Stream stream) override;
  device::OperationMark last_operation() const override { return inner_->last_operation(); }

 private:
  template <typename Collective>
  Result<void> recorded(const char* operation, uint64_t bytes, Collective&& collective);

  std::unique_ptr<device::Communicator> inner_;
  FlightRecorder& recorder_;
  uint64_t sequence_;  // as the one behind it counts, so that messages and records agree
};

}  // namespace lockstep::trace
