// What repetitions of a benchmark are summed up as.
#pragma once

#include <vector>

namespace lockstep::launcher {

/// How long one repetition's phases took, in seconds.
struct PhaseSeconds {
  double prefill = 0.0;
  double decode = 0.0;
};

/// A quantity over the repetitions.
struct Spread {
  double min = 0.0, median = 0.0, max = 0.0;
};

/// `values` are not empty.
Spread spread_of(std::vector<double> values);

}  // namespace lockstep::launcher
