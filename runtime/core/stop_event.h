// A request to stop, raised by one thread, polled by others as a file descriptor.
#pragma once

#include "runtime/core/clock.h"

namespace lockstep {

/// Raised once, and stays raised. Thread-safe.
class StopEvent {
 public:
  StopEvent();
  ~StopEvent();
  StopEvent(const StopEvent&) = delete;
  StopEvent& operator=(const StopEvent&) = delete;

  void raise();
  bool is_raised() const;
  /// Waits until it is raised, at most for `limit`. Returns whether it is. @blocking
  bool wait_for(Duration limit) const;
  /// Readable once raised.
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace lockstep
