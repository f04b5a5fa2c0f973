// The cost of sums independent of the partition: one job with each order of sums, alternating in one run
// (docs/numerics.md).
#pragma once

#include <string>
#include <vector>

#include "launcher/measure/bench/spread.h"

namespace lockstep::launcher {

/// A repetition with invariant sums, and the adjacent one with fast sums.
struct NumericsPair {
  PhaseSeconds invariant, fast;
};

/// Time of invariant sums divided by time of fast ones, minus 1, over the pairs.
struct InvarianceCost {
  Spread prefill, decode;
};

/// `pairs` must not be empty.
InvarianceCost invariance_cost(const std::vector<NumericsPair>& pairs);

/// One line for the table.
std::string to_line(const InvarianceCost& cost);

}  // namespace lockstep::launcher
