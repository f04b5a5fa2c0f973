// Rules of the operations of a mixture of experts.
#include <fmt/format.h>

#include "runtime/graph/operation_rules.h"
#include "runtime/graph/rule_checks.h"

namespace lockstep::graph {

namespace {

/// Checks the groups of experts and how many of them are kept.
Result<void> check_route_groups(OperationUse& use) {
  const int64_t experts = use.symbols.size("E"), groups = use.node.integer("groups");
  if (groups < 1 || experts % groups != 0) {
    return attribute_misfit("groups", groups, fmt::format("a divisor of the {} experts", experts));
  }
  if (!use.node.has("kept_groups") || !use.node.has("group_score")) {
    return attribute_misfit("groups", groups, "the attributes kept_groups and group_score beside it");
  }
  const int64_t kept = use.node.integer("kept_groups"), chosen = use.node.integer("chosen");
  if (kept < 1 || kept > groups || kept * (experts / groups) < chosen) {
    return attribute_misfit("kept_groups", kept, fmt::format("1 to {} groups that hold the {} chosen", groups, chosen));
  }
  LOCKSTEP_TRY_VOID(check_one_of(use, "group_score", {"best", "best_two"}));
  if (use.node.text("group_score") == "best" || experts / groups > 1) return ok();
  return attribute_misfit("group_score", "best_two", "best, in groups of one expert");
}

}  // namespace

Result<void> check_moe_route(OperationUse& use) {
  const int64_t chosen = use.node.integer("chosen");
  if (chosen < 1 || chosen > use.symbols.size("E")) {
    return attribute_misfit("chosen", chosen, fmt::format("1 to {} experts", use.symbols.size("E")));
  }
  if (use.node.has("over")) LOCKSTEP_TRY_VOID(check_one_of(use, "over", {"chosen", "all"}));
  if (use.node.has("scores")) LOCKSTEP_TRY_VOID(check_one_of(use, "scores", {"softmax", "sigmoid"}));
  if (use.node.has("least_sum")) LOCKSTEP_TRY_VOID(check_not_negative(use, "least_sum"));
  return use.node.has("groups") ? check_route_groups(use) : ok();
}

namespace {

/// Checks the local experts against the rows of their weights.
Result<void> check_stacked_experts(OperationUse& use) {
  const int64_t begin = use.node.integer("first_expert"), count = use.node.integer("experts");
  if (begin < 0 || count < 0 || begin > use.symbols.size("E") - count || count > kMaxSize) {
    return misfit(fmt::format("attributes first_expert and experts: found {} and {}, expected a range of 0:{}", begin,
                              count, use.symbols.size("E")));
  }
  const int64_t up_rows = use.symbols.size("A"), down_rows = use.symbols.size("B"), columns = use.symbols.size("I");
  if (up_rows != count * columns || (count > 0 && down_rows % count != 0)) {
    return misfit(fmt::format("found {} gate and {} down rows for {} experts of {} columns, expected {} and a multiple",
                              up_rows, down_rows, count, columns, count * columns));
  }
  use.symbols.bind_size("N", use.symbols.size("d"));
  if (down_rows == count * use.symbols.size("d")) return ok();
  return misfit(fmt::format("operand 4 (down): found {} rows, expected {} for each of {} experts", down_rows,
                            use.symbols.size("d"), count));
}

/// Checks how the input of down is rounded: a scale is one of whole rows or of groups in them.
Result<void> check_rounding(OperationUse& use) {
  if (!use.node.has("rounds")) return ok();
  LOCKSTEP_TRY_VOID(check_one_of(use, "rounds", {"int8", "e4m3"}));
  if (use.node.has("rounds_group") && use.node.integer("rounds_group") < 1) {
    return attribute_misfit("rounds_group", use.node.integer("rounds_group"), "1 or more columns");
  }
  if (use.node.text("leaf") != "expert") return attribute_misfit("leaf", use.node.text("leaf"), "expert beside rounds");
  if (use.node.has("activations"))
    return attribute_misfit("rounds", use.node.text("rounds"), "none beside activations");
  const DType type = use.graph.value(use.node.operands[0]).type.dtype;
  if (type == DType::kFloat32) return ok();
  return misfit(fmt::format("operand 0 (x): found {}, expected f32 beside the attribute rounds", to_string(type)));
}

}  // namespace

Result<void> check_moe_experts(OperationUse& use) {
  LOCKSTEP_TRY_VOID(check_one_of(use, "activation", {"silu", "gelu", "gelu_tanh", "clamped_swiglu"}));
  LOCKSTEP_TRY_VOID(check_one_of(use, "leaf", {"columns", "expert"}));
  if (use.node.has("routes_on")) LOCKSTEP_TRY_VOID(check_one_of(use, "routes_on", {"sums", "inputs"}));
  const bool has_clamps = use.node.has("limit") && use.node.has("alpha");
  if (use.node.text("activation") == "clamped_swiglu" && !has_clamps) {
    return attribute_misfit("activation", "clamped_swiglu", "the attributes limit and alpha beside it");
  }
  if (use.node.operands.size() != 5 && use.node.operands.size() != 8) {
    return misfit(fmt::format("found {} operands, expected 5, or 8 with the three biases", use.node.operands.size()));
  }
  for (const size_t matrix : {2, 3, 4}) LOCKSTEP_TRY_VOID(check_activations(use, matrix));
  LOCKSTEP_TRY_VOID(check_stacked_experts(use));
  LOCKSTEP_TRY_VOID(check_rounding(use));
  LOCKSTEP_TRY(const BlockSplit split, read_blocks(use));
  const Range leaves = split.range_of(use.graph.rank);
  const int64_t block = use.node.integer("block");
  if (block < 1 || block > kMaxSize) return attribute_misfit("block", block, "1 or more columns");
  const int64_t columns = use.symbols.size("I");
  const bool by_expert = use.node.text("leaf") == "expert";
  const bool fits =
      by_expert
          ? leaves.begin == use.node.integer("first_expert") && leaves.size() == use.node.integer("experts")
          : columns <= leaves.size() * block && columns > (leaves.size() - 1) * block - (leaves.size() == 0 ? 1 : 0);
  if (!fits) {
    return misfit(fmt::format("found leaves {} of {} columns each for {} experts of {} columns, expected them to match",
                              to_string(leaves), block, use.node.integer("experts"), columns));
  }
  use.symbols.bind_size("roots", static_cast<int64_t>(split.roots_of(use.graph.rank).size()));
  return ok();
}

}  // namespace lockstep::graph
