// What it costs that the answer does not depend on how the model was cut: the same job with each order of sums, in
// turn in one run (docs/numerics.md).
#pragma once

#include <string>
#include <vector>

#include "launcher/measure/bench/spread.h"

namespace lockstep::launcher {

/// A repetition with invariant sums, and the one beside it with fast ones.
struct NumericsPair {
  PhaseSeconds invariant, fast;
};

/// Time of invariant sums over time of fast ones, less 1, over the pairs.
struct InvarianceCost {
  Spread prefill, decode;
};

/// `pairs` are not empty.
InvarianceCost invariance_cost(const std::vector<NumericsPair>& pairs);

/// One line for the table.
std::string to_line(const InvarianceCost& cost);

}  // namespace lockstep::launcher
