// Lowering of products with weights, and of the nodes fused with them.
#include <fmt/format.h>

#include <memory>

#include "runtime/backends/cpu/compiler.h"
#include "runtime/backends/cpu/fused_linear.h"
#include "runtime/backends/cpu/linear.h"
#include "runtime/backends/cpu/linear_coded.h"
#include "runtime/backends/cpu/packing.h"

namespace lockstep::cpu {

Error Compiler::not_a_weight(const Node& node, size_t operand) const {
  return {ErrorKind::kUnsupported,
          fmt::format("[runtime/backends/cpu] cannot compile {}: found {} over {}, expected a weight of this store",
                      graph_.name, to_string(node.op), graph_.value(node.operands[operand]).name)};
}

void Compiler::fuse(const Node& node, FusedLinear& product) {
  const Fused::As as = fused(node).as;
  if (as == Fused::As::kRowsOf) return product.make_rows(row_work(node));
  if (as == Fused::As::kHalvesOf) product.take_halves();
  product.add_tail([dst = result(node), work = column_work(node)](Range columns) {
    for (int64_t row = 0; row < dst.used_rows(); ++row) work(row, columns.begin, columns.size());
  });
}

Result<void> Compiler::add_product(const Node& node, FusedLinear product) {
  const auto shared = std::make_shared<FusedLinear>(std::move(product));  // because stages are copyable
  const bool has_bias = node.op == graph::Op::kLinear && node.operands.size() > 2;
  if (has_bias) shared->set_bias(operand(node, 2).data, operand(node, 2).dtype);
  for (size_t part : fusion_.parts_of(index_of(node))) fuse(graph_.nodes[part], *shared);
  shared->steal_between(workers_);
  Scratch* scratch = &program_.scratch;
  if (const int64_t bytes = shared->shared_bytes(); bytes > 0) {
    scratch->need_shared(bytes);
    add_shared([shared, scratch](Part part) { shared->arrange_rows(scratch->shared_memory, part); });
  }
  scratch->need_private(shared->private_bytes());
  add_shared([shared, scratch](Part part) { shared->run(scratch->shared_memory, scratch->private_of(part), part); });
  program_.stages.back().reads = [shared](Part part) { return shared->first_weights(part); };
  products_.emplace(index_of(node), shared.get());
  return ok();
}

Result<void> Compiler::lower_linear(const Node& node) {
  if (graph_.value(node.operands[1]).format) return lower_coded_linear(node);
  const auto weight = store_.packed(graph_.value(node.operands[1]).name, *packing_of(kernels_, graph_, node, 1));
  if (!weight) return not_a_weight(node, 1);
  return add_product(node, FusedLinear(LinearTask::make(kernels_, *weight, LinearPlan::plain(weight->packing),
                                                        operand(node, 0), result(node))));
}

Result<void> Compiler::lower_linear_blocks(const Node& node) {
  if (graph_.value(node.operands[1]).format) return lower_coded_linear(node);
  const auto weight = store_.packed(graph_.value(node.operands[1]).name, *packing_of(kernels_, graph_, node, 1));
  if (!weight) return not_a_weight(node, 1);
  LinearPlan plan =
      LinearPlan::blocks(weight->packing, BlockSplit{node.integers("blocks")}, graph_.rank, node.integer("block"));
  return add_product(node,
                     FusedLinear(LinearTask::make(kernels_, *weight, std::move(plan), operand(node, 0), result(node))));
}

Result<void> Compiler::lower_coded_linear(const Node& node) {
  const auto weight = store_.coded(graph_.value(node.operands[1]).name, *coded_packing_of(graph_, node, 1));
  if (!weight) return not_a_weight(node, 1);
  const Tensor x = operand(node, 0);
  CodedLinearTask task = node.op == graph::Op::kLinear
                             ? CodedLinearTask::plain(kernels_, *weight, x, result(node))
                             : CodedLinearTask::blocks(kernels_, *weight, BlockSplit{node.integers("blocks")},
                                                       graph_.rank, x, result(node));
  const bool arranges_alone = task.arrange && x.rows <= kRowsQuantisedTwice;
  FusedLinear product(std::move(task));
  if (arranges_alone) product.arrange_alone();
  return add_product(node, std::move(product));
}

/// Each head is a product by itself; a worker computes whole heads.
Result<void> Compiler::lower_head_linear(const Node& node) {
  const Packing stacked = *packing_of(kernels_, graph_, node, 1);
  const auto weight = store_.packed(graph_.value(node.operands[1]).name, stacked);
  if (!weight) return not_a_weight(node, 1);
  Packing packing = stacked;
  packing.parts = 1;
  const auto of_head = [](Tensor tensor, int64_t head, int64_t columns) {
    tensor.data = tensor.at(0, head * columns);
    tensor.columns = columns;
    return tensor;
  };
  const auto heads = std::make_shared<std::vector<LinearTask>>();
  for (int64_t head = 0; head < stacked.parts; ++head) {
    const PackedWeight own{packing, weight->data + head * stacked.bytes_of_part()};
    heads->push_back(LinearTask::make(kernels_, own, LinearPlan::plain(packing),
                                      of_head(operand(node, 0), head, packing.k),
                                      of_head(result(node), head, packing.n)));
  }
  const int64_t arranged = (heads->front().arranged_bytes() + 63) / 64 * 64;
  Scratch* scratch = &program_.scratch;
  scratch->need_private(arranged + heads->front().private_bytes());
  add_shared([heads, scratch, arranged](Part part) {
    const Share share = share_of(std::ssize(*heads), part);
    std::byte* const memory = scratch->private_of(part);
    for (int64_t head = share.begin; head < share.end; ++head) {
      const LinearTask& task = (*heads)[static_cast<size_t>(head)];
      if (task.arrange) task.arrange_rows(memory, Part{});
      task.run(memory, memory + arranged, {0, task.strips()});
    }
  });
  return ok();
}

}  // namespace lockstep::cpu
