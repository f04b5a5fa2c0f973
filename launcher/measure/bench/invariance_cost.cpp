#include "launcher/measure/bench/invariance_cost.h"

#include <fmt/format.h>

#include <utility>

namespace lockstep::launcher {
namespace {

Spread cost_of(const std::vector<NumericsPair>& pairs, double PhaseSeconds::*phase) {
  std::vector<double> costs;
  for (const NumericsPair& pair : pairs) {
    const double fast = pair.fast.*phase;
    costs.push_back(fast > 0 ? pair.invariant.*phase / fast - 1.0 : 0.0);
  }
  return spread_of(std::move(costs));
}

std::string to_text(const Spread& cost) {
  return fmt::format("{:+.1f} % ({:+.1f} … {:+.1f})", 100 * cost.median, 100 * cost.min, 100 * cost.max);
}

}  // namespace

InvarianceCost invariance_cost(const std::vector<NumericsPair>& pairs) {
  return {cost_of(pairs, &PhaseSeconds::prefill), cost_of(pairs, &PhaseSeconds::decode)};
}

std::string to_line(const InvarianceCost& cost) {
  return fmt::format("  invariant sums cost {} of prefill, {} of decode (docs/numerics.md)\n", to_text(cost.prefill),
                     to_text(cost.decode));
}

}  // namespace lockstep::launcher
