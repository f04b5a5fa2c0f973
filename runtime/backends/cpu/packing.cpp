#include "runtime/backends/cpu/packing.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace lockstep::cpu {
namespace {

using graph::Op;

/// Vectors of 16 bytes, available on every machine: wider ones would not help, because packing is limited by memory.
template <typename Word>
struct VectorOf;
template <>
struct VectorOf<uint32_t> {
  using Type [[gnu::vector_size(16)]] = uint32_t;
  static Type low(Type a, Type b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
  static Type high(Type a, Type b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
};
template <>
struct VectorOf<uint16_t> {
  using Type [[gnu::vector_size(16)]] = uint16_t;
  static Type low(Type a, Type b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
  static Type high(Type a, Type b) { return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
};

/// Transposes a square with sides of 16 bytes; rows of `src` are `src_pitch` bytes apart, rows of `dst` `dst_pitch`.
/// Each round interleaves the first half of the rows with the second half; after log2(rows) rounds, columns have become
/// rows.
template <typename Word>
void transpose_square(const std::byte* src, int64_t src_pitch, std::byte* dst, int64_t dst_pitch) {
  using Vector = VectorOf<Word>;
  constexpr int kSide = 16 / sizeof(Word);
  std::array<typename Vector::Type, kSide> rows, next;
  for (int i = 0; i < kSide; ++i) std::memcpy(&rows[i], src + i * src_pitch, 16);
  for (int round = 1; round < kSide; round *= 2) {
    for (int i = 0; i < kSide / 2; ++i) {
      next[2 * i] = Vector::low(rows[i], rows[i + kSide / 2]);
      next[2 * i + 1] = Vector::high(rows[i], rows[i + kSide / 2]);
    }
    rows = next;
  }
  for (int i = 0; i < kSide; ++i) std::memcpy(dst + i * dst_pitch, &rows[i], 16);
}

/// Source and destination of interleaving: word [row][step] of `src` becomes word [step][row] of `dst`. Pitches are
/// bytes.
struct Interleaving {
  const std::byte* src;
  int64_t src_pitch;
  std::byte* dst;
  int64_t dst_pitch;
  int64_t rows;
};

/// Interleaves steps [begin, end) word by word, for rows [first_row, rows).
template <typename Word>
void interleave_slowly(const Interleaving& of, int64_t first_row, Range steps) {
  constexpr int64_t kSize = sizeof(Word);
  for (int64_t row = first_row; row < of.rows; ++row) {
    for (int64_t step = steps.begin; step < steps.end; ++step) {
      std::memcpy(of.dst + step * of.dst_pitch + row * kSize, of.src + row * of.src_pitch + step * kSize, kSize);
    }
  }
}

/// Interleaves `steps` steps, a cache line of each row at a time: a line is read once and written completely.
template <typename Word>
void interleave(const Interleaving& of, int64_t steps) {
  constexpr int64_t kSize = sizeof(Word), kSide = 16 / kSize, kLine = 64 / kSize;
  const int64_t square_rows = of.rows / kSide * kSide;
  for (int64_t begin = 0; begin < steps; begin += kLine) {
    const int64_t end = std::min(begin + kLine, steps);
    const int64_t square_end = begin + (end - begin) / kSide * kSide;
    for (int64_t row = 0; row < square_rows; row += kSide) {
      for (int64_t step = begin; step < square_end; step += kSide) {
        transpose_square<Word>(of.src + row * of.src_pitch + step * kSize, of.src_pitch,
                               of.dst + step * of.dst_pitch + row * kSize, of.dst_pitch);
      }
    }
    interleave_slowly<Word>(of, square_rows, {begin, square_end});
    interleave_slowly<Word>(of, 0, {square_end, end});
  }
}

/// Packs the columns of one leaf of a panel one after the other; pairs are words of two elements, and the last one of
/// an odd leaf is half zero.
template <typename Element>
void interleave_leaf(const Packing& packing, Interleaving of, int64_t columns) {
  if (!packing.pairs) return interleave<Element>(of, columns);
  const int64_t whole = columns / 2;
  interleave<uint32_t>(of, whole);
  for (int64_t row = 0; columns % 2 != 0 && row < of.rows; ++row) {
    std::array<uint16_t, 2> pair{};
    std::memcpy(pair.data(), of.src + row * of.src_pitch + 4 * whole, 2);
    std::memcpy(of.dst + whole * of.dst_pitch + 4 * row, pair.data(), 4);
  }
}

/// Clears the rows that pad the last strip.
void clear_missing_rows(const Packing& packing, int64_t width, int64_t rows, std::byte* dst) {
  if (rows == width) return;
  const int64_t row_bytes = packing.bytes_per_strip_step() / kStrip;
  for (int64_t step = 0; step < packing.steps(); ++step) {
    std::memset(dst + (step * width + rows) * row_bytes, 0, static_cast<size_t>((width - rows) * row_bytes));
  }
}

template <typename Element>
void unpack(const Packing& packing, const std::byte* packed, int64_t row, Element* dst) {
  const int64_t panel = row / kPanel;
  const int64_t per_step = packing.pairs ? 2 : 1;
  const int64_t stride = packing.strips_of_panel(panel) * kStrip * per_step;
  const Element* from =
      reinterpret_cast<const Element*>(packed + packing.panel_offset(panel)) + row % kPanel * per_step;
  for (int64_t c = 0; c < packing.padded_k(); ++c) {
    const int64_t column = packing.column_of(c);
    if (column >= 0) dst[column] = from[c / per_step * stride + c % per_step];
  }
}

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

int64_t Packing::column_of(int64_t packed) const {
  const int64_t padded = padded_leaf(leaf);
  if (padded == leaf) return packed < k ? packed : -1;
  const int64_t column = packed / padded * leaf + packed % padded;
  return packed % padded < leaf && column < k ? column : -1;
}

void pack_panel(const Packing& packing, int64_t panel, const std::byte* src, std::byte* dst) {
  const int64_t size = static_cast<int64_t>(size_of(packing.dtype));
  const int64_t in_part = panel % packing.panels();
  const int64_t step_bytes = packing.step_stride(in_part);
  std::byte* to = dst + panel / packing.panels() * packing.bytes_of_part() + packing.panel_offset(in_part);
  const int64_t rows = packing.rows_of_panel(panel).size();
  const int64_t leaf_steps = packing.padded_leaf(packing.leaf) / (packing.pairs ? 2 : 1);
  for (int64_t column = 0, step = 0; column < packing.k; column += packing.leaf, step += leaf_steps) {
    const int64_t columns = std::min(packing.leaf, packing.k - column);
    const Interleaving of{src + column * size, packing.k * size, to + step * step_bytes, step_bytes, rows};
    if (size == 4) {
      interleave_leaf<uint32_t>(packing, of, columns);
    } else {
      interleave_leaf<uint16_t>(packing, of, columns);
    }
  }
  clear_missing_rows(packing, packing.strips_of_panel(in_part) * kStrip, rows, to);
}

void pack(const Packing& packing, const std::byte* src, std::byte* dst) {
  const int64_t row_bytes = packing.k * static_cast<int64_t>(size_of(packing.dtype));
  for (int64_t panel = 0; panel < packing.parts * packing.panels(); ++panel) {
    pack_panel(packing, panel, src + packing.rows_of_panel(panel).begin * row_bytes, dst);
  }
}

void unpack_row(const Packing& packing, const std::byte* packed, int64_t row, std::byte* dst) {
  packed += row / packing.n * packing.bytes_of_part();
  row %= packing.n;
  if (size_of(packing.dtype) == 4) return unpack(packing, packed, row, reinterpret_cast<uint32_t*>(dst));
  unpack(packing, packed, row, reinterpret_cast<uint16_t*>(dst));
}

void arrange_row(const Kernels& kernels, const Packing& packing, ConstRow x, std::byte* dst) {
  if (!packing.pairs) return kernels.convert(x, {dst, DType::kFloat32}, packing.k);
  const auto* from = reinterpret_cast<const uint16_t*>(x.data);
  auto* to = reinterpret_cast<uint16_t*>(dst);
  if (packing.padded_k() == packing.k) {
    std::copy_n(from, packing.k, to);
    return;
  }
  for (int64_t c = 0; c < packing.padded_k(); ++c) {
    const int64_t column = packing.column_of(c);
    to[c] = column < 0 ? uint16_t{0} : from[column];
  }
}

bool needs_arranging(const Packing& packing, DType dtype) {
  return packing.pairs ? packing.padded_k() != packing.k : dtype != DType::kFloat32;
}

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
  if (node.op == Op::kHeadLinear && operand == 1) {
    const int64_t heads = node.integer("heads");
    Packing packing = Packing::for_leaves(shape[0] / heads, shape[1], shape[1], type.dtype, pairs);
    packing.parts = heads;
    return packing;
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
