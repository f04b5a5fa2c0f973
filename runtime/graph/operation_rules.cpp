#include "runtime/graph/operation_rules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "runtime/core/int8_groups.h"
#include "runtime/graph/coded_weights.h"
#include "runtime/graph/rule_checks.h"

namespace lockstep::graph {

Result<BlockSplit> read_blocks(const OperationUse& use) {
  const std::vector<int64_t>& bounds = use.node.integers("blocks");
  const bool covers_ranks = bounds.size() == static_cast<size_t>(use.graph.ranks) + 1;
  if (!covers_ranks || bounds.front() != 0 || bounds.back() < 1 || bounds.back() > kMaxSize ||
      !std::is_sorted(bounds.begin(), bounds.end())) {
    return attribute_misfit("blocks", fmt::format("{} bounds", bounds.size()),
                            fmt::format("{} bounds that rise from 0 to the number of leaves", use.graph.ranks + 1));
  }
  return BlockSplit{bounds};
}

Result<void> check_not_negative(const OperationUse& use, std::string_view name) {
  if (!use.node.has(name) || use.node.number(name) >= 0) return ok();
  return attribute_misfit(name, use.node.number(name), "0 or more");
}

Result<void> check_positive(const OperationUse& use, std::string_view name) {
  if (use.node.number(name) > 0) return ok();
  return attribute_misfit(name, use.node.number(name), "above 0");
}

Result<void> check_one_of(const OperationUse& use, std::string_view name,
                          std::initializer_list<std::string_view> allowed) {
  const std::string& found = use.node.text(name);
  if (std::find(allowed.begin(), allowed.end(), found) != allowed.end()) return ok();
  return attribute_misfit(name, found, fmt::format("{}", fmt::join(allowed, ", ")));
}

namespace {

/// Binds `rt` to the type in the attribute dtype, or to `fallback` where the attribute is optional and absent.
Result<void> bind_result_type(OperationUse& use, std::optional<DType> fallback) {
  if (fallback && !use.node.has("dtype")) {
    use.symbols.bind_type("rt", *fallback);
    return ok();
  }
  const std::string& name = use.node.text("dtype");
  const std::optional<DType> type = dtype_from_short_name(name);
  if (!type || !is_float(*type)) return attribute_misfit("dtype", name, "f32, bf16 or f16");
  use.symbols.bind_type("rt", *type);
  return ok();
}

}  // namespace

Result<void> check_activations(const OperationUse& use, size_t weight) {
  if (!use.node.has("activations")) return ok();
  LOCKSTEP_TRY_VOID(check_one_of(use, "activations", {"int8"}));
  const std::optional<WeightFormat> format = format_of(use.graph, use.node, weight);
  if (!format) return attribute_misfit("activations", "int8", "a weight in codes beside it");
  if (format->kind == CodeKind::kE4M3) return attribute_misfit("activations", "int8", "none: weights are e4m3");
  if (is_int8_group(format->group)) return ok();
  return attribute_misfit("activations", fmt::format("int8 in groups of {}", format->group),
                          fmt::format("groups of a multiple of {} up to {}", kLeastInt8Group, kMostInt8Group));
}

Result<void> check_embedding(OperationUse& use) {
  const int64_t first_row = use.node.integer("first_row");
  if (first_row < 0 || first_row > kMaxSize) return attribute_misfit("first_row", first_row, "0 or more");
  return ok();
}

Result<void> check_linear(OperationUse& use) {
  LOCKSTEP_TRY_VOID(check_activations(use, 1));
  return bind_result_type(use, use.symbols.type("dt"));
}

Result<void> check_linear_blocks(OperationUse& use) {
  LOCKSTEP_TRY_VOID(check_activations(use, 1));
  LOCKSTEP_TRY(const BlockSplit split, read_blocks(use));
  const int64_t block = use.node.integer("block");
  if (block < 1 || block > kMaxSize) return attribute_misfit("block", block, "1 or more columns");
  const Range leaves = split.range_of(use.graph.rank);
  const int64_t widest = leaves.size() * block;
  const bool has_last_leaf = leaves.size() > 0 && leaves.end == split.leaves();
  const int64_t narrowest = has_last_leaf ? widest - block + 1 : widest;
  const int64_t columns = use.symbols.size("K");
  if (columns < narrowest || columns > widest) {
    return misfit(fmt::format("operand 0 (x): found {} columns, expected {} to {} (leaves {} of {} columns each)",
                              columns, narrowest, widest, to_string(leaves), block));
  }
  use.symbols.bind_size("roots", static_cast<int64_t>(split.roots_of(use.graph.rank).size()));
  return ok();
}

Result<void> check_head_linear(OperationUse& use) {
  const int64_t heads = use.node.integer("heads"), outputs = use.symbols.size("N");
  if (heads < 1 || outputs % heads != 0) {
    return attribute_misfit("heads", heads, fmt::format("a divisor of the {} rows of weight", outputs));
  }
  if (use.symbols.size("X") / heads == use.symbols.size("K") && use.symbols.size("X") % heads == 0) return ok();
  return misfit(fmt::format("operand 0 (x): found {} columns, expected those of weight ({}) for each of {} heads",
                            use.symbols.size("X"), use.symbols.size("K"), heads));
}

Result<void> check_all_reduce(OperationUse& use) {
  LOCKSTEP_TRY(const BlockSplit split, read_blocks(use));
  const auto roots = static_cast<int64_t>(split.roots_of(use.graph.rank).size());
  if (use.symbols.size("roots") != roots) {
    return misfit(fmt::format("operand 0 (partial): found {} roots, expected {} (rank {} holds leaves {} of {})",
                              use.symbols.size("roots"), roots, use.graph.rank,
                              to_string(split.range_of(use.graph.rank)), split.leaves()));
  }
  return bind_result_type(use, std::nullopt);
}

Result<void> check_all_gather(OperationUse& use) {
  const std::vector<int64_t>& parts = use.node.integers("parts");
  if (parts.size() != static_cast<size_t>(use.graph.ranks)) {
    return attribute_misfit("parts", fmt::format("{} parts", parts.size()), fmt::format("{}", use.graph.ranks));
  }
  int64_t total = 0;
  for (int64_t part : parts) {
    if (part < 0 || part > kMaxSize - total) return attribute_misfit("parts", part, "columns that fit a dimension");
    total += part;
  }
  const int64_t own = parts[static_cast<size_t>(use.graph.rank)];
  if (own != use.symbols.size("n")) {
    return attribute_misfit("parts", fmt::format("{} for rank {}", own, use.graph.rank),
                            fmt::format("{}, the columns of x", use.symbols.size("n")));
  }
  use.symbols.bind_size("N", total);
  return ok();
}

Result<void> check_columns(OperationUse& use) {
  const int64_t begin = use.node.integer("begin");
  const int64_t end = use.node.integer("end");
  if (begin < 0 || begin > end || end > use.symbols.size("N")) {
    return misfit(fmt::format("attributes begin and end: found {}:{}, expected a range of 0:{}", begin, end,
                              use.symbols.size("N")));
  }
  use.symbols.bind_size("n", end - begin);
  return ok();
}

Result<void> check_first_rows(OperationUse& use) {
  if (use.graph.rows > use.graph.slots) {
    return misfit(
        fmt::format("found a step of {} rows, expected at most its {} slots", use.graph.rows, use.graph.slots));
  }
  use.symbols.bind_size("T", use.graph.rows);
  return ok();
}

Result<void> check_join_partials(OperationUse& use) {
  const int64_t n = use.symbols.size("N"), m = use.symbols.size("M");
  if (m > kMaxSize - n) {
    return misfit(
        fmt::format("operands 0 (x) and 1 (y): found {} and {} columns, expected at most {} together", n, m, kMaxSize));
  }
  use.symbols.bind_size("W", n + m);
  return ok();
}

Result<void> check_join_heads(OperationUse& use) {
  const int64_t heads = use.node.integer("heads"), n = use.symbols.size("N"), m = use.symbols.size("M");
  if (heads < 1 || n % heads != 0 || m % heads != 0) {
    return attribute_misfit("heads", heads, fmt::format("a divisor of the {} and {} columns of x and y", n, m));
  }
  if (m > kMaxSize - n) {
    return misfit(
        fmt::format("operands 0 (x) and 1 (y): found {} and {} columns, expected at most {} together", n, m, kMaxSize));
  }
  use.symbols.bind_size("W", n + m);
  return ok();
}

Result<void> check_lookup(OperationUse& use) {
  const int64_t offset = use.node.integer("offset");
  if (offset < 0 || offset > kMaxSize) return attribute_misfit("offset", offset, "0 or more");
  if (!use.node.has("otherwise")) return ok();
  const int64_t row = use.node.integer("otherwise"), rows = use.symbols.size("P");
  if (row >= 0 && row < rows) return ok();
  return attribute_misfit("otherwise", row, fmt::format("a row of {}", rows));
}

Result<void> check_match_magnitude(OperationUse& use) { return check_positive(use, "least"); }

Result<void> check_weighted_sum(OperationUse& use) {
  const auto terms = static_cast<int64_t>(use.node.operands.size()) - 1;
  const int64_t first = use.node.integer("first"), factors = use.symbols.size("K");
  if (first >= 0 && first <= factors - terms) return ok();
  return attribute_misfit("first", first, fmt::format("{} of {} factors", terms, factors));
}

Result<void> check_fake_quantise(OperationUse& use) {
  LOCKSTEP_TRY_VOID(check_one_of(use, "codes", {"int8", "e4m3"}));
  if (!use.node.has("group")) return ok();
  const int64_t group = use.node.integer("group");
  if (group <= 0) return attribute_misfit("group", group, "above 0");
  if (use.node.operands.size() > 1) return attribute_misfit("group", group, "none beside a scale");
  return ok();
}

Result<void> check_multiply(OperationUse& use) {
  if (use.graph.value(use.node.operands[1]).type.shape.rank() != 1) return ok();
  const int64_t factors = use.symbols.size("M"), columns = use.symbols.size("N");
  if (factors == 1 || factors == columns) return ok();
  return misfit(
      fmt::format("operand 1 (y): found {} factors, expected one, or one for each of {} columns", factors, columns));
}

Result<void> check_rms_norm(OperationUse& use) {
  LOCKSTEP_TRY_VOID(check_not_negative(use, "epsilon"));
  const int64_t heads = use.node.integer_or("heads", 1);
  const int64_t width = use.symbols.size("W");
  if (!use.has_operand(1)) {
    if (heads >= 1 && width % heads == 0) return ok();
    return attribute_misfit("heads", heads, fmt::format("a divisor of the {} columns of x", width));
  }
  if (heads < 0 || heads > kMaxSize || heads * use.symbols.size("d") != width) {
    return attribute_misfit("heads", heads,
                            fmt::format("columns of x ({}) / elements of weight ({})", width, use.symbols.size("d")));
  }
  return ok();
}

Result<void> check_layer_norm(OperationUse& use) { return check_not_negative(use, "epsilon"); }

Result<void> check_rope(OperationUse& use) {
  const int64_t heads = use.node.integer("heads");
  const int64_t width = use.symbols.size("Hh");
  if (heads < 1 || width % heads != 0) {
    return attribute_misfit("heads", heads, fmt::format("a divisor of the {} columns of x", width));
  }
  if (use.symbols.size("F") > width / heads / 2) {
    return misfit(fmt::format("operand 2 (frequencies): found {} frequencies, expected at most {}, half of head_dim",
                              use.symbols.size("F"), width / heads / 2));
  }
  if (use.node.operands.size() == 4 || use.node.operands.size() == 5) {
    return misfit(fmt::format("found {} operands, expected 3, or 6 with long_frequencies, is_long and slot",
                              use.node.operands.size()));
  }
  return use.node.has("pairs") ? check_one_of(use, "pairs", {"halves", "neighbours"}) : ok();
}

Result<void> check_clamp_positions(OperationUse& use) {
  const int64_t most = use.node.integer("most");
  if (most < 0 || most > kMaxSize) return attribute_misfit("most", most, "0 or more");
  return ok();
}

Result<void> check_own_slots(OperationUse& use) {
  const int64_t first = use.node.integer("first_slot"), count = use.node.integer("slots"), slots = use.graph.slots;
  if (first >= 0 && count >= 0 && first <= slots && count <= slots - first) return ok();
  return misfit(fmt::format("attributes first_slot and slots: found {} and {}, expected a range of the {} slots", first,
                            count, slots));
}

Result<void> check_rows_of_owners(OperationUse& use) {
  const int64_t each = use.node.integer("slots");
  if (each < 0 || each > kMaxSize || each * use.graph.ranks != use.graph.slots) {
    return attribute_misfit("slots", each, fmt::format("{} slots / {} ranks", use.graph.slots, use.graph.ranks));
  }
  const std::vector<int64_t>& parts = use.node.integers("parts");
  if (parts.size() != static_cast<size_t>(use.graph.ranks)) {
    return attribute_misfit("parts", fmt::format("{} parts", parts.size()), fmt::format("{}", use.graph.ranks));
  }
  int64_t rest = use.symbols.size("N");
  for (const int64_t part : parts) {
    if (part < 0 || part > rest) return attribute_misfit("parts", part, "the columns of x in all");
    rest -= part;
  }
  if (rest != 0) return attribute_misfit("parts", fmt::format("{} columns less than x", rest), "those of x in all");
  use.symbols.bind_size("n", parts[static_cast<size_t>(use.graph.rank)]);
  return ok();
}

Result<void> check_activation(OperationUse& use) {
  return check_one_of(use, "activation", {"silu", "sigmoid", "gelu", "gelu_tanh", "relu", "squared_relu"});
}

Result<void> check_gated_activation(OperationUse& use) {
  LOCKSTEP_TRY_VOID(check_activation(use));
  const int64_t width = use.symbols.size("W");
  if (use.has_operand(1)) {
    use.symbols.bind_size("I", width);
    return ok();
  }
  if (width % 2 != 0) {
    return misfit(fmt::format("operand 0 (gate): found {} columns, expected gate and up side by side", width));
  }
  use.symbols.bind_size("I", width / 2);
  return ok();
}

Result<void> check_scale_by_position(OperationUse& use) {
  const int64_t every = use.node.integer("every"), offset = use.node.integer_or("offset", 0);
  if (every < 1 || every > kMaxSize) return attribute_misfit("every", every, "1 or more positions");
  if (offset < 0 || offset > kMaxSize) return attribute_misfit("offset", offset, "0 or more");
  if (use.symbols.size("P") > 0) return ok();
  return misfit("operand 2 (factors): found none, expected 1 or more");
}

Result<void> check_soft_cap(OperationUse& use) { return check_positive(use, "cap"); }

Result<void> check_accept(OperationUse& use) {
  const int64_t rows = use.symbols.size("T"), slots = use.graph.slots;
  if (slots > 0 && rows % slots == 0 && rows >= slots) return ok();
  return misfit(fmt::format("operand 0 (logits): found {} rows, expected a multiple of the {} slots", rows, slots));
}

Result<void> check_score(OperationUse& use) {
  constexpr int64_t kExactIds = int64_t{1} << 24;  // ids are part of an f32 result
  const int64_t top = use.node.integer("top"), vocabulary = use.symbols.size("V");
  if (vocabulary > kExactIds) {
    return misfit(fmt::format("operand 0 (logits): found {} columns, expected at most {}", vocabulary, kExactIds));
  }
  if (top < 0 || top > vocabulary) return attribute_misfit("top", top, fmt::format("0 to {} ids", vocabulary));
  use.symbols.bind_size("W", 1 + 2 * top);
  return ok();
}

}  // namespace lockstep::graph
