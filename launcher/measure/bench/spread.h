// Summaries of a benchmark's repetitions.
#pragma once

#include <vector>

namespace lockstep::launcher {

/// The durations of one repetition's phases in seconds.
struct PhaseSeconds {
  double prefill = 0.0;
  double decode = 0.0;
};

/// A quantity over the repetitions.
struct Spread {
  double min = 0.0, median = 0.0, max = 0.0;
};

/// `values` must not be empty.
Spread spread_of(std::vector<double> values);

}  // namespace lockstep::launcher
