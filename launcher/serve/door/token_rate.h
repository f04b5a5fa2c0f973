// Tokens per second between two looks: a pure value.
#pragma once

#include <chrono>
#include <cstdint>

#include "runtime/core/clock.h"

namespace lockstep::serve {

class TokenRate {
 public:
  explicit TokenRate(TimePoint began) : sampled_(began) {}

  /// Since the last sample; a new one is taken after half a second. `tokens`: the total so far.
  double sample(uint64_t tokens, TimePoint now) {
    const Duration passed = now - sampled_;
    if (passed < std::chrono::milliseconds(500)) return rate_;
    rate_ = static_cast<double>(tokens - tokens_) / to_seconds(passed);
    sampled_ = now;
    tokens_ = tokens;
    return rate_;
  }

 private:
  TimePoint sampled_;
  uint64_t tokens_ = 0;
  double rate_ = 0.0;
};

}  // namespace lockstep::serve
