#include "runtime/core/stop_event.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "runtime/core/check.h"
#include "runtime/core/readiness.h"

namespace lockstep {

StopEvent::StopEvent() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { LOCKSTEP_CHECK(descriptor_ >= 0); }
StopEvent::~StopEvent() { ::close(descriptor_); }

void StopEvent::raise() {
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(descriptor_, &one, sizeof one);
}

bool StopEvent::is_raised() const { return wait_for(Duration::zero()); }

bool StopEvent::wait_for(Duration limit) const { return becomes_ready(descriptor_, POLLIN, limit); }

}  // namespace lockstep
