#include "runtime/backends/cuda/few_rows.h"

#include <algorithm>

#include "runtime/backends/cuda/store_layout.h"
#include "runtime/backends/cuda/sum_parts.h"
#include "runtime/graph/coded_weights.h"

namespace lockstep::cuda {
namespace {

/// Whether eight parts, from `first` on, are a whole subtree, or more of it.
bool is_subtree(const std::vector<SumPart>& parts, size_t first) {
  constexpr int kMerges[] = {0, 1, 0, 2, 0, 1, 0};  // the ones that end a binary counter
  for (size_t i = 0; i < std::size(kMerges); ++i) {
    if (parts[first + i].merges != kMerges[i] || parts[first + i].root >= 0) return false;
  }
  return parts[first + 7].merges >= 3;
}

bool is_chain(const std::vector<SumPart>& parts) {
  if (parts.size() != 8) return false;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].merges != (i > 0 ? 1 : 0) || (parts[i].root >= 0) != (i == 7)) return false;
  }
  return true;
}

}  // namespace

std::vector<SumPart> parts_of_product(const graph::Graph& graph, const graph::Node& product) {
  const int64_t columns = graph.value(product.operands[1]).type.shape[1];
  if (product.op == graph::Op::kLinear) return plain_parts(columns);
  return block_parts(BlockSplit{product.integers("blocks")}, graph.rank, product.integer("block"), columns);
}

bool has_few_rows(const graph::Graph& graph, const graph::Node& product, int sums) {
  const int64_t rows = graph.value(product.operands[0]).type.shape[0];
  if (graph::format_of(graph, product, 1) || rows < 1 || rows > kTileRows) return false;
  const Packing packing = packing_of(graph, product, 1);
  const FragmentPacking& matrix = std::get<StackedPacking>(packing).matrix;
  const std::vector<SumPart> own = parts_of_product(graph, product);
  const auto parts = static_cast<int64_t>(own.size()) * sums;
  const auto size = static_cast<int64_t>(size_of(matrix.dtype));
  return parts > 0 && parts <= kMostFewParts && fits_stack(own) &&
         product_few_bytes(parts, kProductWarps * most_warp_steps(own, sums, kProductWarps), rows, matrix.k_steps(),
                           size) <= kMostSharedBytes;
}

int64_t most_warp_steps(const std::vector<SumPart>& parts, int sums, int warps) {
  std::vector<int64_t> steps(static_cast<size_t>(warps));
  for (size_t part = 0; part < parts.size() * static_cast<size_t>(sums); ++part) {
    steps[part % steps.size()] += parts[part % parts.size()].steps;
  }
  return (std::ranges::max(steps) + 3) / 4 * 4;
}

bool are_dense(const std::vector<SumPart>& parts, int64_t columns) {
  int64_t steps = 0;
  for (const SumPart& part : parts) {
    if (part.first_step != steps || part.first_column != steps * kStepColumns) return false;
    steps += part.steps;
  }
  return steps * kStepColumns == columns;
}

FoldKind fold_of(const std::vector<SumPart>& parts) {
  if (is_chain(parts)) return kFoldChain;
  if (parts.size() % 8 != 0) return kFoldAny;
  for (size_t first = 0; first < parts.size(); first += 8) {
    if (!is_subtree(parts, first)) return kFoldAny;
  }
  return kFoldEights;
}

}  // namespace lockstep::cuda
