// Lowering of attention, with range checks of the rows for attention and caches.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "runtime/backends/cpu/attention.h"
#include "runtime/backends/cpu/compiler.h"

namespace lockstep::cpu {

using graph::ValueId;

namespace {

int64_t integer_or(const graph::Node& node, std::string_view name, int64_t fallback) {
  return node.has(name) ? node.integer(name) : fallback;
}

/// A ring holds all keys of a window as long as it has room for the rows of a step; other caches hold every position.
RowLimits limits_of(const AttentionRule& rule, const CacheLayout& cache) {
  const RowLimits every_position{.slots = cache.slots, .positions = cache.capacity};
  const int64_t turning = cache.capacity - cache.pinned;
  if (!cache.is_ring || rule.window > turning || rule.pinned > cache.pinned) return every_position;
  return {.slots = cache.slots,
          .positions = std::numeric_limits<int32_t>::max(),
          .window = rule.window,
          .turning = turning,
          .capacity = cache.capacity};
}

Error row_outside(int64_t row, int64_t slot, int64_t position, const RowLimits& limits) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[runtime/backends/cpu] cannot run row {}: found slot {} and position {}, expected a slot below "
                      "{} and a position below {}",
                      row, slot, position, limits.slots, limits.positions)};
}

Error window_lost(int64_t slot, Range step, const RowLimits& limits) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[runtime/backends/cpu] cannot run slot {}: found positions {} in one step, expected at most {} "
                      "rows, since a ring of {} rows must keep a window of {}; use a smaller chunk",
                      slot, to_string(step), limits.turning - limits.window + 1, limits.turning, limits.window)};
}

}  // namespace

void Compiler::lower_clamp_positions(const Node& node) {
  add_alone([from = operand(node, 0).as<int32_t>(), dst = result(node).as<int32_t>(), rows = graph_.rows,
             most = node.integer("most")]() -> Result<void> {
    for (int64_t row = 0; row < rows; ++row) dst[row] = static_cast<int32_t>(std::min<int64_t>(from[row], most));
    return ok();
  });
}

void Compiler::check_rows(const Node& node, ValueId slot, ValueId position, const RowLimits& limits) {
  if (!checked_rows_.emplace(slot, position, limits).second) return;
  const Tensor like = operand(node, 0);
  const auto slots = static_cast<size_t>(limits.slots);
  add_alone([=, of_slot = std::vector<Range>(limits.window > 0 ? slots : 0), slots_of = tensor(slot).as<int32_t>(),
             positions = tensor(position).as<int32_t>()]() mutable -> Result<void> {
    std::fill(of_slot.begin(), of_slot.end(), Range{});
    for (int64_t row = 0; row < like.used_rows(); ++row) {
      if (slots_of[row] < 0) continue;
      const int64_t at = positions[row];
      if (slots_of[row] >= limits.slots || at < 0 || at >= limits.positions) {
        return row_outside(row, slots_of[row], at, limits);
      }
      if (limits.window == 0) continue;
      Range& step = of_slot[slots_of[row]];
      step = step.size() == 0 ? Range{at, at + 1} : Range{std::min(step.begin, at), std::max(step.end, at + 1)};
      const bool is_lost = step.end > limits.capacity && step.size() + limits.window - 1 > limits.turning;
      if (is_lost) return window_lost(slots_of[row], step, limits);
    }
    return ok();
  });
}

AttentionTask Compiler::attention_task(const Node& node) const {
  AttentionTask task = AttentionTask::make(kernels_, cache_of(node, 1), cache_of(node, 2), node.integers("head_map"));
  if (node.text("kernel") == "prefill") {
    task.block_for_prefill(graph_.rows);
  } else {
    task.block_for_decode(std::max<int64_t>(1, graph_.rows / std::max<int64_t>(graph_.slots, 1)));
  }
  task.rule.scale = static_cast<float>(node.number("scale"));
  if (node.has("window")) task.rule.window = node.integer("window");
  task.rule.pinned = integer_or(node, "pinned", 0);
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
    check_rows(node, node.operands[3], node.operands[4], limits_of(task.rule, cache_of(node, cache)));
  }
  task.prepare = heads_before(node);
  Scratch* scratch = &program_.scratch;
  scratch->need_private(task.private_bytes());
  add_shared([task = std::move(task), scratch](Part part) { task.run(scratch->private_of(part), part); });
}

}  // namespace lockstep::cpu
