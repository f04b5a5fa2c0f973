#include "runtime/backends/cpu/weight_packing.h"

namespace lockstep::cpu {
namespace {

using graph::Op;

/// The packing of experts' stacked gate and up [L·I, d], or down [L·d, I].
Packing packing_of_experts(const graph::Node& node, bool is_down, const Shape& shape, DType dtype, bool pairs) {
  const int64_t experts = node.integer("experts");
  const bool has_blocks = is_down && node.text("leaf") == "columns";
  const int64_t rows = experts > 0 ? shape[0] / experts : 0;
  Packing packing = Packing::for_leaves(rows, shape[1], has_blocks ? node.integer("block") : shape[1], dtype, pairs);
  packing.parts = experts;
  return packing;
}

}  // namespace

std::optional<Packing> packing_of(const Kernels& kernels, const graph::Graph& graph, const graph::Node& node,
                                  size_t operand) {
  const TensorType& type = graph.value(node.operands[operand]).type;
  const bool pairs = kernels.bf16_pairs && type.dtype == DType::kBFloat16;
  const Shape& shape = type.shape;
  if (node.op == Op::kLinear && operand == 1) {
    return Packing::for_leaves(shape[0], shape[1], shape[1], type.dtype, pairs);
  }
  if (node.op == Op::kLinearBlocks && operand == 1) {
    return Packing::for_leaves(shape[0], shape[1], node.integer("block"), type.dtype, pairs);
  }
  if (node.op == Op::kCausalConv && operand == 1) {  // taps are read one by one
    return Packing::for_leaves(shape[0], shape[1], shape[1], type.dtype, /*pairs=*/false);
  }
  if (node.op == Op::kMoeExperts && operand >= 2 && operand <= 4) {
    return packing_of_experts(node, operand == 4, shape, type.dtype, pairs);
  }
  return std::nullopt;
}

}  // namespace lockstep::cpu
