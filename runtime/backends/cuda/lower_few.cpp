// Lowering of products of few rows, with the nodes that their launches compute too.
#include <algorithm>

#include "runtime/backends/cuda/activation_kind.h"
#include "runtime/backends/cuda/few_rows.h"
#include "runtime/backends/cuda/lowering.h"

namespace lockstep::cuda {
namespace {

using graph::Op;

constexpr int64_t kBlocksOfMultiprocessor = 2;

const void* bias_of(const graph::Node& product, const std::vector<Tensor>& tensors) {
  const bool has_bias = product.op == Op::kLinear && product.operands.size() > 2;
  return has_bias ? tensors[static_cast<size_t>(product.operands[2].value)].data() : nullptr;
}

const void* after(const void* begin, int64_t bytes) {
  return begin == nullptr ? nullptr : static_cast<const std::byte*>(begin) + bytes;
}

}  // namespace

Norm Lowering::norm_of(const Node& norm) const {
  const bool has_offset = norm.has("offset");
  return {.weight = norm.operands.size() > 1 ? operand(norm, 1).data() : nullptr,
          .bias = norm.op == Op::kLayerNorm && norm.operands.size() > 2 ? operand(norm, 2).data() : nullptr,
          .epsilon = static_cast<float>(norm.number("epsilon")),
          .offset = has_offset ? static_cast<float>(norm.number("offset")) : 0.0f,
          .has_offset = has_offset,
          .has_mean = norm.op == Op::kLayerNorm,
          .is_present = 1};
}

/// The operation of an elementwise node, without its second operand.
Finish Lowering::elementwise(const Node& node) const {
  Finish finish{.z = nullptr, .z_stride = 0, .kind = kMapAdd, .activation = kSilu, .number = 0.0f};
  switch (node.op) {
    case Op::kMultiply: finish.kind = kMapMultiply; break;
    case Op::kScale:
      finish.kind = kMapScale;
      finish.number = static_cast<float>(node.number("factor"));
      break;
    case Op::kSoftCap:
      finish.kind = kMapSoftCap;
      finish.number = static_cast<float>(node.number("cap"));
      break;
    case Op::kActivation:
    case Op::kGatedActivation:
      finish.kind = node.op == Op::kActivation ? kMapActivate : kMapGate;
      finish.activation = activation_kind(node.text("activation"));
      break;
    default: break;
  }
  return finish;
}

/// What the rows are made of, and whether they are kept for other launches.
Result<void> Lowering::set_rows(const Node& node, ProductFewParameters& parameters) {
  ValueId from = node.operands[0];
  const std::vector<size_t> makers = fusion_.parts_of(index_of(node), Fused::As::kRowsOf);
  for (const size_t maker : makers) {
    const Node& part = graph_.nodes[maker];
    if (part.op == Op::kSelectRows) {
      parameters.index = operand(part, 1).as<int32_t>();
    } else {
      parameters.norm = norm_of(part);
    }
    if (maker == makers.front()) from = part.operands[0];
  }
  const Tensor& x = tensor(from);
  parameters.product.x = x.data();
  parameters.product.x_stride = x.stride;
  parameters.x_rows = static_cast<int32_t>(x.rows);
  parameters.columns = static_cast<int32_t>(x.columns);
  if (makers.empty()) return ok();
  const ValueId rows = node.operands[0];
  const bool has_others = std::ranges::any_of(
      flow_.readers(rows), [&](size_t reader) { return fusion_.launch_of(reader) != index_of(node); });
  if (!has_others && !host_reads(rows)) return ok();
  LOCKSTEP_TRY_VOID(place_result(graph_.nodes[makers.back()]));
  parameters.kept = tensor(rows).data();
  return ok();
}

/// The gates and what they gate, if the launch computes both: halves of one weight, or two weights.
Result<void> Lowering::set_gate(const Node& node, ProductFewParameters& parameters) {
  const std::vector<size_t> columns = fusion_.parts_of(index_of(node), Fused::As::kColumnsOf);
  if (columns.empty() || graph_.nodes[columns.front()].op != Op::kGatedActivation) return ok();
  const Node& gated = graph_.nodes[columns.front()];
  ProductParameters& product = parameters.product;
  parameters.gate = elementwise(gated).activation;
  if (gated.operands.size() == 1) {
    product.outputs /= 2;
    const auto size = static_cast<int64_t>(size_of(graph_.value(node.operands[1]).type.dtype));
    const int64_t half = int64_t{product.outputs} * product.k_steps * kStepColumns * size;
    parameters.up_weights = after(product.weights, half);
    parameters.up_bias = after(product.bias, product.outputs * size);
    return ok();
  }
  const Node& other = graph_.nodes[fusion_.parts_of(index_of(node), Fused::As::kGateOf).front()];
  LOCKSTEP_TRY(const uint64_t weights, weight(other, 1, packing_of(graph_, other, 1)));
  parameters.up_weights = reinterpret_cast<const void*>(weights);
  parameters.up_bias = bias_of(other, tensors_);
  if (gated.operands[0] == *node.result) return ok();
  std::swap(product.weights, parameters.up_weights);
  std::swap(product.bias, parameters.up_bias);
  return ok();
}

void Lowering::set_finishes(const Node& node, ProductFewParameters& parameters) const {
  ValueId value = *node.result;
  for (const size_t column : fusion_.parts_of(index_of(node), Fused::As::kColumnsOf)) {
    const Node& part = graph_.nodes[column];
    const bool is_free = part.op == Op::kAllReduce || part.op == Op::kAllGather || part.op == Op::kGatedActivation;
    if (!is_free) {
      Finish finish = elementwise(part);
      if (part.op == Op::kAdd) {
        const ValueId other = part.operands[part.operands[0] == value ? 1 : 0];
        finish.z = tensor(other).data();
        finish.z_stride = graph_.value(other).type.shape.rank() == 1 ? 0 : tensor(other).stride;
      }
      parameters.finishes[parameters.finish_count++] = finish;
    }
    value = *part.result;
  }
}

Result<void> Lowering::lower_few(const Node& node) {
  const Packing packing = packing_of(graph_, node, 1);
  LOCKSTEP_TRY(const uint64_t weights, weight(node, 1, packing));
  const FragmentPacking& matrix = std::get<StackedPacking>(packing).matrix;
  const std::vector<SumPart> parts = parts_of_product(graph_, node);
  const Tensor& y = result(last_of_launch(node));
  ProductFewParameters parameters{};
  parameters.product = product_into(y, weights, matrix, parts);
  parameters.product.bias = bias_of(node, tensors_);
  LOCKSTEP_TRY_VOID(set_rows(node, parameters));
  LOCKSTEP_TRY_VOID(set_gate(node, parameters));
  set_finishes(node, parameters);
  const auto size = static_cast<int64_t>(size_of(matrix.dtype));
  const int sums = parameters.up_weights == nullptr ? 1 : 2;
  const int64_t tiles = (parameters.product.outputs + kTileOutputs - 1) / kTileOutputs;
  // A block alone on its multiprocessor needs more warps to hide their waiting; a norm's bits depend on its threads.
  const bool is_alone =
      parameters.norm.is_present == 0 && tiles <= bases_.multiprocessors && std::ssize(parts) * sums > kProductWarps;
  const int threads = is_alone ? kMostFewThreads : kProductThreads;
  const int warps = threads / 32;
  const int64_t warp_steps = most_warp_steps(parts, sums, warps);
  const int64_t shared =
      product_few_bytes(std::ssize(parts) * sums, warps * warp_steps, y.rows, matrix.k_steps(), size);
  parameters.warp_steps = static_cast<int32_t>(warp_steps);
  parameters.fold = fold_of(parts);
  parameters.row_stride = static_cast<int32_t>(few_row_stride(matrix.k_steps(), size));
  parameters.shared_bytes = static_cast<int32_t>(shared);
  parameters.is_dense = are_dense(parts, graph_.value(node.operands[1]).type.shape[1]) ? 1 : 0;
  const int64_t held = std::clamp<int64_t>(kMultiprocessorSharedBytes / (shared + 1024), 1, kBlocksOfMultiprocessor);
  emit(typed("product_few", matrix.dtype), parameters, walking_blocks(tiles, held),
       {.threads = threads, .shared_bytes = shared});
  return ok();
}

}  // namespace lockstep::cuda
