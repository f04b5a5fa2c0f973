// A communicator decorator for recording collectives in a flight recorder.
#pragma once

#include <memory>

#include "runtime/trace/flight_recorder.h"
#include "runtime/trace/observed_communicator.h"

namespace lockstep::trace {

/// Borrows the recorder.
class RecordedCommunicator final : public ObservedCommunicator {
 public:
  RecordedCommunicator(std::unique_ptr<device::Communicator> inner, FlightRecorder& recorder)
      : ObservedCommunicator(*inner), inner_(std::move(inner)), recorder_(recorder) {}

 private:
  void entered(CollectiveKind kind, uint64_t sequence, uint64_t bytes) override {
    recorder_.enter("model", to_string(kind).data(), sequence, bytes);
  }
  /// A failed operation remains entered, which shows where the rank waited.
  void left(bool well) override {
    if (well) recorder_.leave();
  }

  std::unique_ptr<device::Communicator> inner_;
  FlightRecorder& recorder_;
};

}  // namespace lockstep::trace
