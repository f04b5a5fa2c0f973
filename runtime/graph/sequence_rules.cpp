// Rules of the operations on what slots hold: caches, and states that recurrences carry from row to row.
#include <algorithm>

#include "runtime/core/cache_rows.h"
#include "runtime/graph/operation_rules.h"
#include "runtime/graph/rule_checks.h"

namespace lockstep::graph {
namespace {

/// Checks the elements of caches, and binds the size h of a head: rows in 8 bits end with their scale.
Result<void> check_cache_type(OperationUse& use, size_t cache) {
  const DType dtype = use.symbols.type("ct"), model = use.symbols.type("dt");
  const int64_t head_dim = row_values(dtype, use.symbols.size("c"));
  use.symbols.bind_size("h", head_dim);
  const auto found = [&] {
    const Value& value = use.graph.value(use.node.operands[cache]);
    return fmt::format("operand {} (a cache): found \"{}\" of type {}", cache, value.name, to_string(value.type));
  };
  if (dtype != model && !has_row_scales(dtype)) {
    return misfit(fmt::format("{}, expected elements {}, or i8 or u8 with scales", found(), to_string(model)));
  }
  if (!has_row_scales(dtype) || (head_dim >= 1 && head_dim <= kMostCodedRow)) return ok();
  return misfit(fmt::format("{}, expected rows of 1 to {} codes and {} bytes of their scale", found(), kMostCodedRow,
                            kRowScaleBytes));
}

/// Checks the attributes window and pinned against the cache's row count C.
Result<void> check_window(const OperationUse& use) {
  const int64_t capacity = use.symbols.size("C");
  const int64_t pinned = use.node.integer_or("pinned", 0);
  if (pinned != 0 && !use.node.has("window")) return attribute_misfit("pinned", pinned, "a window beside it");
  if (pinned < 0 || pinned >= capacity) return attribute_misfit("pinned", pinned, "0 to the cache's rows");
  if (!use.node.has("window")) return ok();
  const int64_t window = use.node.integer("window");
  if (window < 1 || window > kMaxSize) return attribute_misfit("window", window, "1 or more");
  return ok();
}

/// Checks that a cache holds all slots of the graph, or its rank's share of them.
Result<void> check_cache_slots(const OperationUse& use) {
  const int64_t slots = use.symbols.size("Z"), all = use.graph.slots;
  if (slots == all || slots * use.graph.ranks == all) return ok();
  return misfit(
      fmt::format("operand 1 (cache): found \"{}\" of {} slots, expected the graph's {}, or those of one of {} "
                  "ranks",
                  use.graph.value(use.node.operands[1]).name, slots, all, use.graph.ranks));
}

/// Checks that a state of a recurrence holds all slots of the graph: none is divided between ranks by slots.
Result<void> check_all_slots(const OperationUse& use) {
  if (use.symbols.size("Z") == use.graph.slots) return ok();
  return misfit(
      fmt::format("the states: found {} slots, expected the graph's {}", use.symbols.size("Z"), use.graph.slots));
}

}  // namespace

Result<void> check_kv_append(OperationUse& use) {
  LOCKSTEP_TRY_VOID(check_cache_type(use, 1));
  LOCKSTEP_TRY_VOID(check_cache_slots(use));
  LOCKSTEP_TRY_VOID(check_window(use));
  const int64_t expected = use.symbols.size("G") * use.symbols.size("h");
  if (use.symbols.size("Gh") == expected) return ok();
  return misfit(fmt::format("operand 0 (rows): found {} columns, expected {} (kv heads × head_dim of the cache)",
                            use.symbols.size("Gh"), expected));
}

Result<void> check_head_map(const OperationUse& use) {
  const std::vector<int64_t>& map = use.node.integers("head_map");
  const int64_t head_dim = use.symbols.size("h");
  if (head_dim < 1 || static_cast<int64_t>(map.size()) != use.symbols.size("Hh") / head_dim ||
      use.symbols.size("Hh") % head_dim != 0) {
    return attribute_misfit("head_map", fmt::format("{} heads", map.size()),
                            fmt::format("{} columns of q / head_dim {}", use.symbols.size("Hh"), head_dim));
  }
  const int64_t cache_heads = use.symbols.size("G");
  for (int64_t head : map) {
    if (head < 0 || head >= cache_heads) {
      return attribute_misfit("head_map", head, fmt::format("cache heads 0 to {}", cache_heads - 1));
    }
  }
  return ok();
}

Result<void> check_chunked(const OperationUse& use) {
  const int64_t chunked = use.node.integer("chunked");
  const bool is_alone = use.node.has("window") && !use.node.has("pinned");
  if (chunked == 1 && is_alone) return ok();
  return attribute_misfit("chunked", chunked, "1, with a window and without pinned positions");
}

/// Checks the optional operands: per-head values if per_head is set, then the query for the pinned keys.
Result<void> check_attention_extras(const OperationUse& use) {
  const size_t per_head = use.node.has("per_head") ? 1 : 0;
  const size_t pinned = use.node.has("pinned") && use.node.integer("pinned") > 0 ? 1 : 0;
  if (use.node.operands.size() != 5 + per_head + pinned) {
    return misfit(fmt::format("found {} operands, expected {} (attributes per_head, pinned)", use.node.operands.size(),
                              5 + per_head + pinned));
  }
  if (per_head == 0) return ok();
  LOCKSTEP_TRY_VOID(check_one_of(use, "per_head", {"sinks", "slopes"}));
  const Shape& shape = use.graph.value(use.node.operands[5]).type.shape;
  const auto heads = static_cast<int64_t>(use.node.integers("head_map").size());
  if (shape.rank() == 1 && shape[0] == heads && is_float(use.graph.value(use.node.operands[5]).type.dtype)) return ok();
  return misfit(fmt::format("operand 5 (per_head): found {}, expected one number for each of {} query heads",
                            to_string(use.graph.value(use.node.operands[5]).type), heads));
}

/// Checks which columns of the cache are a head's values, and binds those of the result.
Result<void> check_value_columns(OperationUse& use) {
  const int64_t head_dim = use.symbols.size("h"), columns = use.node.integer_or("value_columns", head_dim);
  if (columns < 1 || columns > head_dim) {
    return attribute_misfit("value_columns", columns, fmt::format("1 to {}, the columns of a key", head_dim));
  }
  if (use.node.has("value_columns") && use.node.operands[1] != use.node.operands[2]) {
    return misfit(fmt::format("operand 2 (v): found \"{}\", expected the cache of the keys (attribute value_columns)",
                              use.graph.value(use.node.operands[2]).name));
  }
  use.symbols.bind_size("Hv", columns * std::ssize(use.node.integers("head_map")));
  return ok();
}

Result<void> check_attention(OperationUse& use) {
  LOCKSTEP_TRY_VOID(check_cache_type(use, 1));
  LOCKSTEP_TRY_VOID(check_cache_slots(use));
  LOCKSTEP_TRY_VOID(check_head_map(use));
  LOCKSTEP_TRY_VOID(check_value_columns(use));
  LOCKSTEP_TRY_VOID(check_window(use));
  if (use.node.has("chunked")) LOCKSTEP_TRY_VOID(check_chunked(use));
  LOCKSTEP_TRY_VOID(check_attention_extras(use));
  LOCKSTEP_TRY_VOID(check_not_negative(use, "soft_cap"));
  if (use.node.has("bound") && (use.node.integer("bound") < 1 || use.node.integer("bound") > kMaxSize)) {
    return attribute_misfit("bound", use.node.integer("bound"), "1 or more");
  }
  return check_one_of(use, "kernel", {"prefill", "decode"});
}

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
