// Times of steps: of the device by events around the captured graph, of the host's epilogue by the clock.
#pragma once

#include <memory>

#include "runtime/cuda/stream.h"
#include "runtime/device/device_time.h"

namespace lockstep::cuda {

/// Until `start` every call but `create` does nothing. The time between the events is read after the step's own wait,
/// so that nothing waits for it.
class StepTimer {
 public:
  /// Borrows both.
  static Result<std::unique_ptr<StepTimer>> create(const cu::Context& context, const Clock& clock) {
    std::unique_ptr<StepTimer> timer(new StepTimer(clock));
    LOCKSTEP_TRY(timer->events_, cu::Stopwatch::create(context));
    return timer;
  }

  void start() { is_on_ = true; }
  const device::DeviceTime& time() const { return time_; }

  Result<void> begin_device(cu::Stream& stream) {
    if (!is_on_) return ok();
    return events_->begin(stream);
  }
  Result<void> end_device(cu::Stream& stream) {
    if (!is_on_) return ok();
    return events_->end(stream);
  }
  /// After the wait for the device.
  void begin_epilogue() {
    if (is_on_) epilogue_ = clock_.now();
  }
  Result<void> end_step() {
    if (!is_on_) return ok();
    LOCKSTEP_TRY(const Duration device, events_->elapsed());
    time_ += {device, clock_.now() - epilogue_};
    return ok();
  }

 private:
  explicit StepTimer(const Clock& clock) : clock_(clock) {}

  const Clock& clock_;
  std::unique_ptr<cu::Stopwatch> events_;
  bool is_on_ = false;
  TimePoint epilogue_{};
  device::DeviceTime time_;
};

}  // namespace lockstep::cuda
