// Lowering of a mixture of experts: routing and products.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/backends/cpu/compiler.h"
#include "runtime/backends/cpu/experts.h"
#include "runtime/backends/cpu/packing.h"

namespace lockstep::cpu {
void Compiler::lower_moe_route(const Node& node) {
  RouteRule rule{.chosen = node.integer("chosen"),
                 .is_sigmoid = node.has("scores", "sigmoid"),
                 .is_divided = !node.has("over", "all"),
                 .groups = node.integer_or("groups", 1),
                 .kept_groups = node.integer_or("kept_groups", 1),
                 .by_best_two = node.has("group_score", "best_two"),
                 .least_sum = static_cast<float>(node.number_or("least_sum", 0.0)),
                 .scale = static_cast<float>(node.number_or("scale", 1.0))};
  if (node.operands.size() > 1) rule.bias = operand(node, 1).as<float>();
  add_shared([logits = operand(node, 0), dst = result(node), rule, route = kernels_.route](Part part) {
    const Share share = share_of(dst.used_rows(), part);
    for (int64_t row = share.begin; row < share.end; ++row) {
      route(reinterpret_cast<const float*>(logits.at(row)), reinterpret_cast<float*>(dst.at(row)), dst.columns, rule);
    }
  });
}

const int32_t* Compiler::slot_of(const Node& node) const {
  const bool is_of_tokens = operand(node, 0).rows_in_use != nullptr;
  return is_of_tokens && slot_of_rows_ ? tensor(*slot_of_rows_).as<int32_t>() : nullptr;
}

std::optional<ExpertMatrix> Compiler::expert_matrix(const Node& node, size_t i) const {
  const std::string& name = graph_.value(node.operands[i]).name;
  if (const std::optional<CodedPacking> packing = coded_packing_of(graph_, node, i)) {
    const std::optional<CodedWeight> weight = store_.coded(name, *packing);
    return weight ? std::optional<ExpertMatrix>(*weight) : std::nullopt;
  }
  const std::optional<PackedWeight> weight = store_.packed(name, *packing_of(kernels_, graph_, node, i));
  return weight ? std::optional<ExpertMatrix>(*weight) : std::nullopt;
}

Result<ExpertTask> Compiler::expert_task(const Node& node) const {
  ExpertMatrix weights[3];  // gate, up, down
  for (size_t i = 0; i < 3; ++i) {
    const std::optional<ExpertMatrix> weight = expert_matrix(node, i + 2);
    if (!weight) return not_a_weight(node, i + 2);
    weights[i] = *weight;
  }
  const ExpertMatrix& down = weights[2];
  if (!weights[0].reads_same_rows(weights[1])) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[runtime/backends/cpu] cannot compile {}: found gate and up of its experts in formats "
                             "with different groups, expected the same groups; quantise them alike",
                             graph_.name)};
  }
  const BlockSplit split{node.integers("blocks")};
  std::vector<ExpertLeaf> leaves = node.text("leaf") == "expert"
                                       ? ExpertLeaf::whole(down, split, graph_.rank)
                                       : ExpertLeaf::blocks(down, split, graph_.rank, node.integer("block"));
  std::optional<FakeQuantisation> rounding;
  if (node.has("rounds")) {
    rounding =
        FakeQuantisation{.is_e4m3 = node.has("rounds", "e4m3"), .group = node.integer_or("rounds_group", down.k())};
  }
  const auto bias = [&](size_t i) { return node.operands.size() > i ? operand(node, i).data : nullptr; };
  return ExpertTask(kernels_,
                    {.x = operand(node, 0),
                     .route = operand(node, 1),
                     .slot = slot_of(node),
                     .gate = weights[0],
                     .up = weights[1],
                     .down = weights[2],
                     .gate_bias = bias(5),
                     .up_bias = bias(6),
                     .down_bias = bias(7),
                     .first_expert = node.integer("first_expert"),
                     .most_per_row = std::min(node.integer("experts"), graph::experts_of_row(graph_, node.operands[1])),
                     .activation = activation_of(node),
                     .routes_on_inputs = node.has("routes_on", "inputs"),
                     .rounding = rounding,
                     .result = result(node)},
                    std::move(leaves));
}

Result<void> Compiler::lower_moe_experts(const Node& node) {
  LOCKSTEP_TRY(const ExpertTask task, expert_task(node));
  Scratch* scratch = &program_.scratch;
  scratch->need_shared(task.shared_bytes());
  scratch->need_private(task.private_bytes());
  add_alone([task, scratch]() -> Result<void> {
    task.group(scratch->shared_memory);
    return ok();
  });
  add_shared([task, scratch](Part part) { task.gather(scratch->shared_memory, part); });
  add_shared([task, scratch](Part part) { task.run_inner(scratch->shared_memory, scratch->private_of(part), part); });
  if (task.arranges_inner()) {
    add_shared([task, scratch](Part part) { task.arrange_inner(scratch->shared_memory, part); });
  }
  add_shared([task, scratch](Part part) { task.run_down(scratch->shared_memory, scratch->private_of(part), part); });
  return ok();
}

}  // namespace lockstep::cpu
