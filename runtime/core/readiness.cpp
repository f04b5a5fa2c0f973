#include "runtime/core/readiness.h"

#include <poll.h>

#include <algorithm>

namespace lockstep {

bool becomes_ready(int descriptor, short events, Duration limit) {
  constexpr Duration kLongestPoll = std::chrono::hours(24);  // poll takes milliseconds in 32 bits
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  for (Duration left = limit;; left = limit - (clock.now() - begin)) {
    pollfd one{.fd = descriptor, .events = events, .revents = 0};
    const auto nap = std::chrono::ceil<std::chrono::milliseconds>(std::clamp(left, Duration::zero(), kLongestPoll));
    const int ready = ::poll(&one, 1, static_cast<int>(nap.count()));
    if (ready > 0 || (ready < 0 && !is_temporary(errno))) return true;
    if (left <= Duration::zero()) return false;
  }
}

}  // namespace lockstep
