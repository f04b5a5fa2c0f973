// Stages of the operations that know positions: rope, the KV cache and attention.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/backends/cpu/attention.h"
#include "runtime/backends/cpu/compiler.h"

namespace lockstep::cpu {

using graph::ValueId;

namespace {

bool turns_neighbours(const graph::Node& node) { return node.has("pairs") && node.text("pairs") == "neighbours"; }

int64_t integer_or(const graph::Node& node, std::string_view name, int64_t fallback) {
  return node.has(name) ? node.integer(name) : fallback;
}

/// The cosines and sines of a rope node, made row by row.
struct RopeTable {
  Tensor position;          // i32 [rows]
  Tensor frequencies;       // f32 [rotated / 2]
  Tensor long_frequencies;  // the same, for slots where `is_long`; no data: none
  Tensor is_long;           // i32 [slots]
  const int32_t* slot;      // [rows]
  float scale;
  bool neighbours;  // the layout that Kernels::rope_neighbours reads, else that of rope_halves

  int64_t columns() const { return frequencies.columns * (neighbours ? 4 : 2); }

  bool turns_long(int64_t row) const {
    if (long_frequencies.data == nullptr || slot[row] < 0 || slot[row] >= is_long.columns) return false;
    return is_long.as<int32_t>()[slot[row]] != 0;
  }

  void fill_row(int64_t row, float* dst) const {
    const float* frequency = (turns_long(row) ? long_frequencies : frequencies).as<float>();
    const auto at = static_cast<float>(position.as<int32_t>()[row]);
    float* sines = dst + columns() / 2;
    for (int64_t i = 0; i < frequencies.columns; ++i) {
      const float angle = at * frequency[i];
      const float cosine = std::cos(angle) * scale, sine = std::sin(angle) * scale;
      if (neighbours) {
        dst[2 * i] = dst[2 * i + 1] = cosine;
        sines[2 * i] = -sine;
        sines[2 * i + 1] = sine;
      } else {
        dst[i] = cosine;
        sines[i] = sine;
      }
    }
  }
};

/// A ring holds what a window needs as long as the rows of a step leave room for it; other caches hold every position.
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

const float* Compiler::rope_table(const Node& node) {
  const RopeKey key{{node.operands.begin() + 1, node.operands.end()}, node.number("scale"), turns_neighbours(node)};
  if (const auto found = rope_tables_.find(key); found != rope_tables_.end()) return found->second;
  const bool has_long = node.operands.size() > 3;
  const RopeTable table{.position = operand(node, 1),
                        .frequencies = operand(node, 2),
                        .long_frequencies = has_long ? operand(node, 3) : Tensor{},
                        .is_long = has_long ? operand(node, 4) : Tensor{},
                        .slot = has_long ? operand(node, 5).as<int32_t>() : nullptr,
                        .scale = static_cast<float>(node.number("scale")),
                        .neighbours = turns_neighbours(node)};
  const Tensor like = result(node);
  float* memory = program_.tables.emplace_back(static_cast<size_t>(like.rows * table.columns())).data();
  add_shared([=](Part part) {
    const Share share = share_of(like.used_rows(), part);
    for (int64_t row = share.begin; row < share.end; ++row) table.fill_row(row, memory + row * table.columns());
  });
  rope_tables_.emplace(key, memory);
  return memory;
}

void Compiler::lower_rope(const Node& node) {
  const int64_t heads = node.integer("heads");
  const int64_t rotated = 2 * operand(node, 2).columns;
  const bool neighbours = turns_neighbours(node);
  const int64_t sines_at = neighbours ? rotated : rotated / 2;
  const RopeFunction turn = neighbours ? kernels_.rope_neighbours : kernels_.rope_halves;
  const float* table = rope_table(node);
  const HeadWork turn_head = [=, x = operand(node, 0), dst = result(node)](int64_t row, int64_t head) {
    const int64_t head_dim = dst.columns / heads;
    const int64_t column = head * head_dim;
    const float* cosines = table + row * 2 * sines_at;
    turn(x.const_row(row, column), cosines, cosines + sines_at, dst.row(row, column), rotated, head_dim);
  };
  if (const Node* attention = attention_of_heads(node)) {
    if (*node.result != attention->operands[0]) {
      note(node, Fused::As::kCacheHeadsOf, index_of(*attention));
      head_work_.push_back(turn_head);
      return;
    }
    note(node, Fused::As::kQueryHeadsOf, index_of(*attention));
    head_work_.push_back([turn_head, head_map = attention->integers("head_map")](int64_t row, int64_t cache_head) {
      for (size_t head = 0; head < head_map.size(); ++head) {
        if (head_map[head] == cache_head) turn_head(row, static_cast<int64_t>(head));
      }
    });
    return;
  }
  add_shared([turn_head, heads, dst = result(node)](Part part) {
    const Share share = share_of(dst.used_rows() * heads, part);
    for (int64_t i = share.begin; i < share.end; ++i) turn_head(i / heads, i % heads);
  });
}

namespace {

/// Whether row t is slot t, of the first slots only.
bool runs_first_slots(const graph::Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const graph::Node& node) { return node.op == graph::Op::kFirstRows; });
}

}  // namespace

const graph::Node* Compiler::attention_of_heads(const Node& node) const {
  const Node* const end = graph_.nodes.data() + graph_.nodes.size();
  const Node* attention = &node;
  while (attention != end && attention->op != graph::Op::kAttention) ++attention;
  const bool has_row_per_slot = graph_.rows == graph_.slots || runs_first_slots(graph_);
  if (attention == end || attention->text("kernel") != "decode" || !has_row_per_slot) return nullptr;
  const auto appends = [&](const Node& n, size_t cache) {
    return n.op == graph::Op::kKvAppend && n.operands[1] == attention->operands[cache];
  };
  const auto is_key = [&](ValueId value) {
    return std::any_of(&node, attention, [&](const Node& n) { return appends(n, 1) && n.operands[0] == value; });
  };
  const CacheLayout* keys = store_.cache(graph_.value(attention->operands[1]).name);
  const auto belongs = [&](const Node& n) {
    if (n.op == graph::Op::kColumns) return plan_.values[n.result->value].is_view;
    if (n.op != graph::Op::kRope) return appends(n, 1) || appends(n, 2);
    if (*n.result == attention->operands[0])
      return n.integer("heads") == int64_t(attention->integers("head_map").size());
    return is_key(*n.result) && keys != nullptr && n.integer("heads") == keys->heads;
  };
  return std::all_of(&node, attention, belongs) ? attention : nullptr;
}

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

Result<void> Compiler::lower_kv_append(const Node& node) {
  const CacheLayout* cache = store_.cache(graph_.value(node.operands[1]).name);
  LOCKSTEP_CHECK(cache != nullptr, graph_.value(node.operands[1]).name);
  RowLimits limits{.slots = cache->slots, .positions = cache->capacity};
  if (cache->is_ring) limits.positions = std::numeric_limits<int32_t>::max();
  check_rows(node, node.operands[2], node.operands[3], limits);
  const HeadWork write_head = [layout = *cache, rows = operand(node, 0), slot = operand(node, 2).as<int32_t>(),
                               position = operand(node, 3).as<int32_t>()](int64_t row, int64_t head) {
    if (slot[row] >= 0) layout.write(slot[row], position[row], head, head + 1, rows.at(row));
  };
  if (const Node* attention = attention_of_heads(node)) {
    note(node, Fused::As::kCacheHeadsOf, index_of(*attention));
    head_work_.push_back(write_head);
    return ok();
  }
  add_shared([write_head, rows = operand(node, 0), heads = cache->heads](Part part) {
    const Share share = share_of(rows.used_rows() * heads, part);
    for (int64_t i = share.begin; i < share.end; ++i) write_head(i / heads, i % heads);
  });
  return ok();
}

AttentionTask Compiler::attention_task(const Node& node, const CacheLayout& keys, const CacheLayout& values) const {
  AttentionTask task = AttentionTask::make(kernels_, keys, values, node.integers("head_map"));
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

Result<void> Compiler::lower_attention(const Node& node) {
  const CacheLayout* keys = store_.cache(graph_.value(node.operands[1]).name);
  const CacheLayout* values = store_.cache(graph_.value(node.operands[2]).name);
  LOCKSTEP_CHECK(keys != nullptr && values != nullptr, graph_.value(node.operands[1]).name);
  AttentionTask task = attention_task(node, *keys, *values);
  for (const CacheLayout* cache : {keys, values}) {
    check_rows(node, node.operands[3], node.operands[4], limits_of(task.rule, *cache));
  }
  if (!head_work_.empty()) {
    task.prepare = [work = std::exchange(head_work_, {})](int64_t row, int64_t head) {
      for (const HeadWork& one : work) one(row, head);
    };
  }
  Scratch* scratch = &program_.scratch;
  scratch->need_private(task.private_bytes());
  add_shared([task = std::move(task), scratch](Part part) { task.run(scratch->private_of(part), part); });
  return ok();
}

}  // namespace lockstep::cpu
