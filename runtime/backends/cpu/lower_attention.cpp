// Phases of the operations that know positions: rope, the KV cache and attention.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "runtime/backends/cpu/attention.h"
#include "runtime/backends/cpu/compiler.h"

namespace lockstep::cpu {

using graph::ValueId;

const float* Compiler::rope_table(const Node& node) {
  const RopeKey key{node.operands[1], node.operands[2], node.number("scale")};
  if (const auto found = rope_tables_.find(key); found != rope_tables_.end()) return found->second;
  const Tensor position = operand(node, 1);
  const Tensor frequencies = operand(node, 2);
  const Tensor like = result(node);
  const int64_t half = frequencies.columns;
  float* table = program_.tables.emplace_back(static_cast<size_t>(like.rows * half * 2)).data();
  add_shared([=, scale = static_cast<float>(node.number("scale"))](Part part) {
    const Share share = share_of(like.used_rows(), part);
    for (int64_t row = share.begin; row < share.end; ++row) {
      const auto at = static_cast<float>(position.as<int32_t>()[row]);
      float* cosines = table + row * half * 2;
      for (int64_t i = 0; i < half; ++i) {
        const float angle = at * frequencies.as<float>()[i];
        cosines[i] = std::cos(angle) * scale;
        cosines[half + i] = std::sin(angle) * scale;
      }
    }
  });
  rope_tables_.emplace(key, table);
  return table;
}

void Compiler::lower_rope(const Node& node) {
  const int64_t heads = node.integer("heads");
  const int64_t half = operand(node, 2).columns;
  const float* table = rope_table(node);
  add_shared([=, x = operand(node, 0), dst = result(node), rope_head = kernels_.rope_head](Part part) {
    const int64_t head_dim = dst.columns / heads;
    const Share share = share_of(dst.used_rows() * heads, part);
    for (int64_t i = share.begin; i < share.end; ++i) {
      const int64_t row = i / heads;
      const int64_t column = i % heads * head_dim;
      const float* cosines = table + row * half * 2;
      rope_head(x.const_row(row, column), cosines, cosines + half, dst.row(row, column), 2 * half, head_dim);
    }
  });
}

void Compiler::check_rows(const Node& node, ValueId slot, ValueId position, const CacheLayout& cache) {
  const auto [known, is_new] = checked_rows_.try_emplace({slot, position}, cache.capacity);
  if (!is_new && known->second <= cache.capacity) return;
  known->second = cache.capacity;
  const Tensor like = operand(node, 0);
  add_alone([=, slots = tensor(slot).as<int32_t>(), positions = tensor(position).as<int32_t>(),
             slot_count = cache.slots, capacity = cache.capacity]() -> Result<void> {
    for (int64_t row = 0; row < like.used_rows(); ++row) {
      const bool fits = slots[row] < slot_count && positions[row] >= 0 && positions[row] < capacity;
      if (slots[row] < 0 || fits) continue;
      return Error{ErrorKind::kInvalidArgument,
                   fmt::format("[runtime/backends/cpu] cannot run row {}: found slot {} and position {}, expected a "
                               "slot below {} and a position below {}",
                               row, slots[row], positions[row], slot_count, capacity)};
    }
    return ok();
  });
}

Result<void> Compiler::lower_kv_append(const Node& node) {
  const CacheLayout* cache = store_.cache(graph_.value(node.operands[1]).name);
  LOCKSTEP_CHECK(cache != nullptr, graph_.value(node.operands[1]).name);
  check_rows(node, node.operands[2], node.operands[3], *cache);
  add_shared([layout = *cache, rows = operand(node, 0), slot = operand(node, 2).as<int32_t>(),
              position = operand(node, 3).as<int32_t>()](Part part) {
    const Share share = share_of(rows.used_rows() * layout.heads, part);
    for (int64_t i = share.begin; i < share.end; ++i) {
      const int64_t row = i / layout.heads;
      const int64_t head = i % layout.heads;
      if (slot[row] >= 0) layout.write(slot[row], position[row], head, head + 1, rows.at(row));
    }
  });
  return ok();
}

Result<void> Compiler::lower_attention(const Node& node) {
  const CacheLayout* keys = store_.cache(graph_.value(node.operands[1]).name);
  const CacheLayout* values = store_.cache(graph_.value(node.operands[2]).name);
  LOCKSTEP_CHECK(keys != nullptr && values != nullptr, graph_.value(node.operands[1]).name);
  check_rows(node, node.operands[3], node.operands[4], *keys);
  AttentionTask task = AttentionTask::make(kernels_, *keys, *values, node.integers("head_map"), graph_.rows);
  task.q = operand(node, 0);
  task.slot = operand(node, 3).as<int32_t>();
  task.position = operand(node, 4).as<int32_t>();
  task.scale = static_cast<float>(node.number("scale"));
  task.result = result(node);
  Scratch* scratch = &program_.scratch;
  scratch->need_private(task.private_bytes());
  add_shared([task = std::move(task), scratch](Part part) { task.run(scratch->private_of(part), part); });
  return ok();
}

}  // namespace lockstep::cpu
