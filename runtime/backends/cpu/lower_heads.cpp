// Lowering of operations on heads: rope, norms, appending to the KV cache. They run in separate stages or in the stage
// of the attention that reads the heads.
#include <algorithm>
#include <cmath>

#include "runtime/backends/cpu/compiler.h"
#include "runtime/backends/cpu/row_encoder.h"

namespace lockstep::cpu {
namespace {

using graph::Op;

bool turns_neighbours(const graph::Node& node) { return node.has("pairs", "neighbours"); }

/// The cosines and sines of a rope node, computed row by row.
struct RopeTable {
  Tensor position;          // i32 [rows]
  Tensor frequencies;       // f32 [rotated / 2]
  Tensor long_frequencies;  // the same, for slots where `is_long`; no data: none
  Tensor is_long;           // i32 [slots]
  const int32_t* slot;      // [rows]
  float scale;
  bool neighbours;  // the layout of Kernels::rope_neighbours, else of rope_halves

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

Compiler::HeadWork Compiler::head_work(const Node& node) {
  if (node.op == Op::kRope) return turned_head(node);
  if (node.op == Op::kKvAppend) return appended_head(node);
  LOCKSTEP_CHECK(node.op == Op::kRmsNorm, to_string(node.op));
  const Tensor dst = result(node);
  return [x = operand(node, 0), w = norm_weight(node), dst, width = dst.columns / node.integer_or("heads", 1),
          epsilon = node.number("epsilon"), factor = norm_factor(node),
          rms_norm = kernels_.rms_norm](int64_t row, int64_t head) {
    const int64_t column = head * width;
    rms_norm(x.const_row(row, column), w, dst.row(row, column), width, epsilon, factor);
  };
}

Compiler::HeadWork Compiler::turned_head(const Node& node) {
  const int64_t rotated = 2 * operand(node, 2).columns;
  const bool neighbours = turns_neighbours(node);
  return [x = operand(node, 0), dst = result(node), heads = node.integer("heads"), rotated,
          sines_at = neighbours ? rotated : rotated / 2, table = rope_table(node),
          turn = neighbours ? kernels_.rope_neighbours : kernels_.rope_halves](int64_t row, int64_t head) {
    const int64_t head_dim = dst.columns / heads;
    const int64_t column = head * head_dim;
    const float* cosines = table + row * 2 * sines_at;
    turn(x.const_row(row, column), cosines, cosines + sines_at, dst.row(row, column), rotated, head_dim);
  };
}

Compiler::HeadWork Compiler::appended_head(const Node& node) {
  const CacheLayout& cache = cache_of(node, 1);
  check_rows(node, node.operands[2], node.operands[3], cache.held().of_append());
  if (cache.is_coded()) return coded_head(node, cache);
  return [layout = cache, rows = operand(node, 0), slot = operand(node, 2).as<int32_t>(),
          position = operand(node, 3).as<int32_t>()](int64_t row, int64_t head) {
    if (slot[row] >= 0) layout.write(slot[row], position[row], head, head + 1, rows.at(row));
  };
}

Compiler::HeadWork Compiler::coded_head(const Node& node, const CacheLayout& cache) {
  return [encoder = RowEncoder(kernels_), layout = cache, rows = operand(node, 0),
          slot = operand(node, 2).as<int32_t>(), position = operand(node, 3).as<int32_t>()](int64_t row, int64_t head) {
    if (slot[row] < 0) return;
    std::byte codes[kMostCodedRow + kRowScaleBytes];
    encoder.encode(layout.dtype, rows.const_row(row, head * layout.head_dim), layout.head_dim, codes);
    layout.write_codes(slot[row], position[row], head, codes);
  };
}

void Compiler::lower_rope(const Node& node) { lower_heads(result(node), node.integer("heads"), head_work(node)); }

void Compiler::lower_kv_append(const Node& node) {
  lower_heads(operand(node, 0), cache_of(node, 1).heads, head_work(node));
}

void Compiler::lower_heads(const Tensor& rows, int64_t heads, HeadWork work) {
  add_shared([rows, heads, work = std::move(work)](Part part) {
    const Share share = share_of(rows.used_rows() * heads, part);
    for (int64_t i = share.begin; i < share.end; ++i) work(i / heads, i % heads);
  });
}

void Compiler::lower_join_heads(const Node& node) {
  const Tensor x = operand(node, 0), y = operand(node, 1), dst = result(node);
  const int64_t heads = node.integer("heads"), first = x.columns / heads, second = y.columns / heads;
  lower_heads(dst, heads, [=](int64_t row, int64_t head) {
    std::byte* const to = dst.at(row, head * (first + second));
    const std::byte* const rest = y.at(row, head * second);
    std::copy_n(x.at(row, head * first), first * x.element_size(), to);
    std::copy_n(rest, second * y.element_size(), to + first * x.element_size());
  });
}

Compiler::HeadWork Compiler::heads_before(const Node& attention) {
  std::vector<std::vector<int64_t>> readers(static_cast<size_t>(cache_of(attention, 1).heads));  // by cache head
  for (int64_t head = 0; const int64_t read : attention.integers("head_map")) readers.at(read).push_back(head++);
  std::vector<HeadWork> all;
  for (size_t part : fusion_.parts_of(index_of(attention))) {
    const Node& node = graph_.nodes[part];
    HeadWork work = head_work(node);
    if (fused(node).as == Fused::As::kQueryHeadsOf) {
      work = [work = std::move(work), readers](int64_t row, int64_t cache_head) {
        for (const int64_t head : readers[cache_head]) work(row, head);
      };
    }
    all.push_back(std::move(work));
  }
  if (all.empty()) return nullptr;
  return [all = std::move(all)](int64_t row, int64_t cache_head) {
    for (const HeadWork& work : all) work(row, cache_head);
  };
}

}  // namespace lockstep::cpu
