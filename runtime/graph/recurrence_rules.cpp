// Rules of the operations that carry a state from row to row.
#include <algorithm>

#include "runtime/graph/operation_rules.h"
#include "runtime/graph/rule_checks.h"

namespace lockstep::graph {
namespace {

/// Checks that a state of a recurrence holds all slots of the graph: none is divided between ranks by slots.
Result<void> check_all_slots(const OperationUse& use) {
  if (use.symbols.size("Z") == use.graph.slots) return ok();
  return misfit(
      fmt::format("the states: found {} slots, expected the graph's {}", use.symbols.size("Z"), use.graph.slots));
}

}  // namespace

Result<void> check_causal_conv(OperationUse& use) {
  LOCKSTEP_TRY_VOID(check_all_slots(use));
  const int64_t taps = use.symbols.size("W"), rows = use.symbols.size("R");
  if (taps < 1 || taps > kMostTaps) {
    return misfit(fmt::format("operand 1 (weight): found {} taps, expected 1 to {}", taps, kMostTaps));
  }
  // Rows are written while the step's first rows still read the ones before them.
  if (rows < 2 * (taps - 1) || rows < 1) {
    return misfit(fmt::format("operand 2 (rows): found {} rows, expected at least {} for {} taps", rows,
                              std::max<int64_t>(2 * (taps - 1), 1), taps));
  }
  return use.node.has("activation") ? check_activation(use) : ok();
}

Result<void> check_gated_delta_rule(OperationUse& use) {
  LOCKSTEP_TRY_VOID(check_all_slots(use));
  const std::vector<int64_t>& map = use.node.integers("head_map");
  const auto heads = static_cast<int64_t>(map.size());
  const int64_t key_heads = use.symbols.size("P") / 2, key_dim = use.symbols.size("k");
  const int64_t value_dim = use.symbols.size("v"), block = use.symbols.size("B");
  if (heads == 0 || !std::is_sorted(map.begin(), map.end()) || map.front() < 0 || map.back() >= key_heads) {
    return misfit(
        fmt::format("attribute head_map: found {} entries, expected rising key heads below {}", heads, key_heads));
  }
  if (key_dim < 1 || value_dim < 1 || block < 1 || block > kMostBlockRows) {
    return misfit(
        fmt::format("the states: found heads of {} and {} and blocks of {}, expected at least 1, and blocks "
                    "of at most {}",
                    key_dim, value_dim, block, kMostBlockRows));
  }
  const auto is = [&](std::string_view letter, int64_t expected) { return use.symbols.size(letter) == expected; };
  if (!is("H", heads) || !is("P", 2 * key_heads) || !is("Q", 2 * heads) || !is("Y", 2 * heads) ||
      !is("X", 2 * key_heads * key_dim + heads * value_dim)) {
    return misfit(
        fmt::format("found {} columns of x, {} gates, states of {} and {} heads, expected those of {} key "
                    "heads of {} and {} value heads of {}, states twice",
                    use.symbols.size("X"), use.symbols.size("Y"), use.symbols.size("P"), use.symbols.size("Q"),
                    key_heads, key_dim, heads, value_dim));
  }
  use.symbols.bind_size("N", heads * value_dim);
  return ok();
}

}  // namespace lockstep::graph
