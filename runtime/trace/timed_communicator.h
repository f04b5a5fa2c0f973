// A communicator decorator for timing collectives, with two clock readings per call.
#pragma once

#include "runtime/core/clock.h"
#include "runtime/trace/observed_communicator.h"

namespace lockstep::trace {

/// Borrows everything.
class TimedCommunicator final : public ObservedCommunicator {
 public:
  TimedCommunicator(device::Communicator& inner, const Clock& clock, CollectiveLog& log)
      : ObservedCommunicator(inner), clock_(clock), log_(log) {}

 private:
  void entered(CollectiveKind kind, uint64_t sequence, uint64_t bytes) override {
    kind_ = kind;
    sequence_ = sequence;
    bytes_ = bytes;
    enter_ = clock_.now();
  }
  void left(bool) override { log_.add(kind_, sequence_, bytes_, enter_, clock_.now()); }

  const Clock& clock_;
  CollectiveLog& log_;
  // Of the current collective.
  CollectiveKind kind_ = CollectiveKind::kBarrier;
  uint64_t sequence_ = 0, bytes_ = 0;
  TimePoint enter_;
};

}  // namespace lockstep::trace
