#include "runtime/core/spin_limit.h"

#include <algorithm>

namespace lockstep {
namespace {

/// One pause. The shortest of several measurements, because another program may have the core during one.
std::chrono::duration<double, std::nano> measure_pause() {
  constexpr int kMeasurements = 5, kPauses = 400;
  auto shortest = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < kMeasurements; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    for (int pause = 0; pause < kPauses; ++pause) pause_core();
    shortest = std::min(shortest, std::chrono::steady_clock::now() - begin);
  }
  return std::chrono::duration<double, std::nano>(shortest) / kPauses;
}

}  // namespace

int pauses_in(Duration time) {
  static const double pause_ns = std::max(1.0, measure_pause().count());
  return static_cast<int>(static_cast<double>(time.count()) / pause_ns);
}

SpinLimit::SpinLimit(Duration first)
    : shortest_(pauses_in(std::min(first, kShortest))),
      longest_(pauses_in(first < kShortest ? first : std::max(first, kLongest))),
      pauses_(pauses_in(first)) {}

void SpinLimit::learn(Duration asleep) {
  constexpr Duration kSoon = kLongest, kMuchLater = std::chrono::milliseconds(1);
  const int pauses = this->pauses();
  if (asleep < kSoon) pauses_.store(std::min(2 * pauses, longest_), std::memory_order_relaxed);
  if (asleep > kMuchLater) pauses_.store(std::max(pauses / 2, shortest_), std::memory_order_relaxed);
}

}  // namespace lockstep
