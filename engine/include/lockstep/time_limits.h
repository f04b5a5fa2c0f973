// The times that `EngineOptions` may have.
#pragma once

namespace lockstep {

/// Both ends are allowed.
struct TimeLimits {
  double least;
  double most;
};

inline constexpr TimeLimits kCheckWeightsSeconds{0.0, 1e9};
inline constexpr TimeLimits kChunkBudgetMilliseconds{0.0, 1e6};
inline constexpr TimeLimits kMetricsIntervalSeconds{0.1, 86400.0};

}  // namespace lockstep
