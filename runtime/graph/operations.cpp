#include "runtime/graph/operations.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace lockstep::graph {
namespace {

using enum OperandUse;
using enum AttributeKind;

Error misfit(std::string message) { return {ErrorKind::kInvalidArgument, std::move(message)}; }

Error attribute_misfit(std::string_view name, const auto& found, std::string_view expected) {
  return misfit(fmt::format("attribute {}: found {}, expected {}", name, found, expected));
}

/// Binds `rt` to the type that the attribute dtype names, or to `fallback` where it may be left out.
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

/// The attribute blocks as a split that has a range for every rank of the graph.
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

Result<void> check_embedding(OperationUse& use) {
  const int64_t first_row = use.node.integer("first_row");
  if (first_row < 0 || first_row > kMaxSize) return attribute_misfit("first_row", first_row, "0 or more");
  return ok();
}

Result<void> check_linear(OperationUse& use) { return bind_result_type(use, use.symbols.type("dt")); }

Result<void> check_linear_blocks(OperationUse& use) {
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

Result<void> check_rms_norm(OperationUse& use) {
  if (use.node.number("epsilon") < 0) return attribute_misfit("epsilon", use.node.number("epsilon"), "0 or more");
  return ok();
}

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
  return ok();
}

Result<void> check_kv_append(OperationUse& use) {
  const int64_t expected = use.symbols.size("G") * use.symbols.size("h");
  if (use.symbols.size("Gh") == expected) return ok();
  return misfit(fmt::format("operand 0 (rows): found {} columns, expected {} (kv heads × head_dim of the cache)",
                            use.symbols.size("Gh"), expected));
}

Result<void> check_attention(OperationUse& use) {
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
  const std::string& kernel = use.node.text("kernel");
  if (kernel != "prefill" && kernel != "decode") return attribute_misfit("kernel", kernel, "prefill or decode");
  return ok();
}

Result<void> check_gated_activation(OperationUse& use) {
  const std::string& activation = use.node.text("activation");
  if (activation != "silu") return attribute_misfit("activation", activation, "silu");
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

/// Patterns: T rows of a step, S slots (bound to the graph's), other letters as in OPERATIONS.md.
std::vector<Operation> make_operations() {
  return {
      {Op::kEmbedding,
       "embedding",
       {{"ids", "i32[T]"}, {"table", "dt[V,d]"}},
       {{"first_row", kInteger}},
       "f32[1,T,d]",
       check_embedding},
      {Op::kLinear,
       "linear",
       {{"x", "dt[T,K]"}, {"weight", "dt[N,K]"}, {"bias", "dt[N]", kOptional}},
       {{"dtype", kText, /*required=*/false}},
       "rt[T,N]",
       check_linear},
      {Op::kLinearBlocks,
       "linear_blocks",
       {{"x", "dt[T,K]"}, {"weight", "dt[N,K]"}},
       {{"blocks", kIntegers}, {"block", kInteger}},
       "f32[roots,T,N]",
       check_linear_blocks},
      {Op::kAllReduce,
       "all_reduce",
       {{"partial", "f32[roots,T,N]"}},
       {{"blocks", kIntegers}, {"dtype", kText}},
       "rt[T,N]",
       check_all_reduce,
       /*is_collective=*/true},
      {Op::kAllGather,
       "all_gather",
       {{"x", "any[R,n]"}},
       {{"parts", kIntegers}},
       "any[R,N]",
       check_all_gather,
       /*is_collective=*/true},
      {Op::kAdd, "add", {{"x", "dt[R,N]"}, {"y", "dt[R,N]|dt[N]"}}, {}, "dt[R,N]"},
      {Op::kRmsNorm,
       "rms_norm",
       {{"x", "dt[R,d]"}, {"weight", "dt[d]"}},
       {{"epsilon", kNumber}},
       "dt[R,d]",
       check_rms_norm},
      {Op::kRope,
       "rope",
       {{"x", "dt[T,Hh]"}, {"position", "i32[T]"}, {"frequencies", "f32[F]"}},
       {{"heads", kInteger}, {"scale", kNumber}},
       "dt[T,Hh]",
       check_rope},
      {Op::kKvAppend,
       "kv_append",
       {{"rows", "dt[T,Gh]"}, {"cache", "dt[S,G,C,h]", kUpdated}, {"slot", "i32[T]"}, {"position", "i32[T]"}},
       {},
       "",
       check_kv_append},
      {Op::kAttention,
       "attention",
       {{"q", "dt[T,Hh]"}, {"k", "dt[S,G,C,h]"}, {"v", "dt[S,G,C,h]"}, {"slot", "i32[T]"}, {"position", "i32[T]"}},
       {{"head_map", kIntegers}, {"scale", kNumber}, {"kernel", kText}},
       "dt[T,Hh]",
       check_attention},
      {Op::kGatedActivation,
       "gated_activation",
       {{"gate", "dt[T,W]"}, {"up", "dt[T,W]", kOptional}},
       {{"activation", kText}},
       "dt[T,I]",
       check_gated_activation},
      {Op::kColumns,
       "columns",
       {{"x", "any[R,N]"}},
       {{"begin", kInteger}, {"end", kInteger}},
       "any[R,n]",
       check_columns},
      {Op::kSelectRows, "select_rows", {{"x", "any[T,d]"}, {"rows", "i32[S]"}}, {}, "any[S,d]"},
      {Op::kRunningSlots, "running_slots", {{"active", "i32[S]"}, {"finished", "i32[S]"}}, {}, "i32[S]"},
      {Op::kMarkSeen, "mark_seen", {{"seen", "u8[S,V]", kUpdated}, {"ids", "i32[T]"}, {"slot", "i32[T]"}}, {}, ""},
      {Op::kAdvance, "advance", {{"length", "i32[S]", kUpdated}, {"slot", "i32[T]"}}, {}, ""},
      {Op::kAgree,
       "agree",
       {{"hidden", "dt[S,d]"},
        {"step", "i32[2]"},
        {"last_id", "i32[S]"},
        {"length", "i32[S]"},
        {"output_index", "i32[S]"},
        {"parameter_hash", "i32[S]"},
        {"stop_request", "i32[S]"},
        {"finished", "i32[S]", kUpdated}},
       {},
       "",
       nullptr,
       /*is_collective=*/true},
      {Op::kSample,
       "sample",
       {{"logits", "f32[S,V]"},
        {"rows", "i32[S]"},
        {"last_id", "i32[S]", kUpdated},
        {"output_index", "i32[S]", kUpdated},
        {"finished", "i32[S]", kUpdated},
        {"seen", "u8[S,V]"},
        {"temperature", "f32[S]"},
        {"top_p", "f32[S]"},
        {"min_p", "f32[S]"},
        {"repetition_penalty", "f32[S]"},
        {"top_k", "i32[S]"},
        {"do_sample", "i32[S]"},
        {"max_new_tokens", "i32[S]"},
        {"pad_id", "i32[S]"},
        {"seed", "i32[S,2]"},
        {"eos", "i32[S,E]"}},
       {},
       "i32[S]"},
  };
}

}  // namespace

const std::vector<Operation>& operations() {
  static const std::vector<Operation> kOperations = make_operations();
  return kOperations;
}

const Operation& operation(Op op) {
  const auto index = static_cast<size_t>(op);
  LOCKSTEP_CHECK(index < operations().size(), index);
  return operations()[index];
}

}  // namespace lockstep::graph
