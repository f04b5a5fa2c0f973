// Lowering of attention, with range checks of the rows for attention and caches.
#include <algorithm>

#include "runtime/backends/cpu/attention.h"
#include "runtime/backends/cpu/compiler.h"

namespace lockstep::cpu {

using graph::ValueId;

void Compiler::lower_clamp_positions(const Node& node) {
  add_alone([from = operand(node, 0).as<int32_t>(), dst = result(node).as<int32_t>(), rows = graph_.rows,
             most = node.integer("most")]() -> Result<void> {
    for (int64_t row = 0; row < rows; ++row) dst[row] = static_cast<int32_t>(std::min<int64_t>(from[row], most));
    return ok();
  });
}

void Compiler::check_rows(const Node& node, ValueId slot, ValueId position, const device::RowLimits& limits) {
  if (!checked_rows_.emplace(slot, position, limits).second) return;
  add_alone([check = device::RowCheck("runtime/backends/cpu", limits), like = operand(node, 0),
             slots = tensor(slot).as<int32_t>(), positions = tensor(position).as<int32_t>()]() mutable {
    const auto rows = static_cast<size_t>(like.used_rows());
    return check.run({slots, rows}, {positions, rows});
  });
}

AttentionTask Compiler::attention_task(const Node& node) const {
  const std::vector<int64_t>& head_map = node.integers("head_map");
  AttentionTask task =
      node.has("value_columns")
          ? AttentionTask::make_latent(kernels_, cache_of(node, 1), node.integer("value_columns"), head_map)
          : AttentionTask::make(kernels_, cache_of(node, 1), cache_of(node, 2), head_map);
  if (node.text("kernel") == "prefill") {
    task.block_for_prefill(graph_.rows);
  } else {
    task.block_for_decode(std::max<int64_t>(1, graph_.rows / std::max<int64_t>(graph_.slots, 1)));
  }
  task.rule.scale = static_cast<float>(node.number("scale"));
  if (node.has("window")) task.rule.window = node.integer("window");
  task.rule.chunked = node.has("chunked");
  task.rule.pinned = node.integer_or("pinned", 0);
  if (node.has("soft_cap")) task.rule.soft_cap = static_cast<float>(node.number("soft_cap"));
  task.q = operand(node, 0);
  task.slot = operand(node, 3).as<int32_t>();
  task.position = operand(node, 4).as<int32_t>();
  size_t next = 5;
  if (node.has("per_head")) (node.text("per_head") == "sinks" ? task.sinks : task.slopes) = operand(node, next++);
  if (task.rule.pinned > 0) task.pinned_q = operand(node, next);
  task.result = result(node);
  return task;
}

void Compiler::lower_attention(const Node& node) {
  AttentionTask task = attention_task(node);
  for (size_t cache : {1, 2}) {
    const device::RowLimits limits = cache_of(node, cache).held().of_attention(task.rule.window, task.rule.pinned);
    check_rows(node, node.operands[3], node.operands[4], limits);
  }
  task.share_readers(graph_.rows, workers_);
  if (HeadWork prepare = heads_before(node); task.reader_shares == 1) {
    task.prepare = std::move(prepare);
  } else if (prepare) {  // in an earlier stage: every share reads what it makes
    lower_heads(task.q, task.keys.heads, std::move(prepare));
  }
  Scratch* scratch = &program_.scratch;
  scratch->need_private(task.private_bytes());
  add_shared([task = std::move(task), scratch](Part part) { task.run(scratch->private_of(part), part); });
}

}  // namespace lockstep::cpu
