// The inner loops of 8-bit products (runtime/core/int8_groups.h), compiled once per instruction set. Sums of a group
// are exact integers, and the float32 operations and their order are the same in all of them, so results agree to the
// bit wherever a multiplication and an addition are fused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/backends/cpu/isa.h"
#include "runtime/backends/cpu/kernels/kernels.h"

namespace lockstep::cpu {

constexpr int kInt8Columns = 4;                        // columns of K per lane and instruction: a step
constexpr int kInt8StripStep = kStrip * kInt8Columns;  // bytes of a strip's step
constexpr int kInt8TileRows = 6;                       // maximum rows of one call of `product`
constexpr int kInt8TiledRows = 16;                     // and of `tiled_product`

/// A range of groups of K, summed into the accumulators at `level` of a stack, like `Segment`.
struct Int8Segment {
  int64_t first_step = 0, first_group = 0;
  int64_t groups = 0;
  int64_t last_steps = 0;  // of the last group
  int level = 0;
  bool opens = true;  // the accumulators start at 0
  int merges = 0;     // number of merges of the two topmost afterwards
  int root = -1;      // root completed afterwards
};

/// The operands of both products. Weights are unsigned (128 added), x is signed, as returned by `quantise`.
struct Int8Operands {
  const std::byte* weights = nullptr;  // first group, first strip: its steps, then the scales f32 [strips, kStrip]
  int64_t step_stride = 0;             // bytes between steps; also for the scales
  const std::byte* x = nullptr;        // row 0, first group: int8, four columns per step
  const float* x_scales = nullptr;     // row 0, first group
  const int32_t* x_offsets = nullptr;  // row 0, first group: −128 · Σ of its integers
  int64_t x_stride = 0;                // bytes between rows, in all three
  int64_t group_steps = 0;             // of each group except a range's last
  int rows = 0;
  int strips = 0;  // 1 … kPanelStrips

  /// The operands from the first group of `segment` on. Always inline, because kernels of every instruction set call
  /// it.
  [[gnu::always_inline]] Int8Operands from(const Int8Segment& segment) const {
    Int8Operands part = *this;
    part.weights += (segment.first_step + segment.first_group) * step_stride;
    part.x += segment.first_step * kInt8Columns;
    part.x_scales += segment.first_group;
    part.x_offsets += segment.first_group;
    return part;
  }
};

/// One range of groups.
///
/// `sums[row][column] += Σ over the groups, in order, of (Σ of the group's products) · scale of w · scale of x`.
struct Int8Product {
  Int8Operands operands;  // rows: 1 … kInt8TileRows, or kInt8TiledRows
  int64_t groups = 0;
  int64_t last_steps = 0;  // of the last group
  float* sums = nullptr;   // [rows, kPanel]
  bool opens = false;      // accumulators start at 0 instead of `sums`
  // `tiled_product` prefetches `next_lines` lines with each tile of weights, starting here.
  const std::byte* next = nullptr;
  int next_lines = 0;
};

/// All leaves of a plan in order, for few rows.
struct Int8FewRows : PanelStream {
  Int8Operands operands;  // of the first panel; rows: 1 … kInt8TileRows
  const Int8Segment* begin = nullptr;
  const Int8Segment* end = nullptr;
};

/// The result of quantising a group.
struct Int8Group {
  float scale = 0.0f;
  int32_t sum = 0;  // of the integers
};

/// A query in 16-bit integers: its scale, and −128 · Σ of the high and of the low parts.
struct QueryScale {
  float scale = 0.0f;
  int32_t high_offset = 0;
  int32_t low_offset = 0;
};

struct Int8Kernels {
  void (*few_rows)(const Int8FewRows&);
  void (*product)(const Int8Product&);
  void (*tiled_product)(const Int8Product&);  // the same for more rows; null without AMX
  /// `to_int8`: integers [count, rounded up to a step], padded with zeros.
  Int8Group (*quantise)(const float* values, int64_t count, int8_t* integers);
  /// Attention over caches of integers, with products of bytes; null without an instruction for 16 lanes of them, where
  /// tiles are decoded.
  void (*attend)(const AttendedTile&) = nullptr;
  /// Makes a row of AttendedTile::q of `count` values: integers of 16 bits in two parts of int8, [4 · steps] the high
  /// one and [4 · steps] the low one, then QueryScale.
  void (*split_query)(const float* q, int64_t count, int64_t steps, std::byte* dst) = nullptr;
};

/// Instruction sets of byte products, ascending; an `Isa` may occur with either of two.
enum class Int8Isa { kPortable, kAvx2, kAvxVnni, kAvx512, kAvx512Vnni, kAmx };

/// The instruction sets of the build that this machine has, ascending.
std::vector<Int8Isa> available_int8_isas();
/// `isa` must be one of the build's; calling the kernels needs a machine that has it.
const Int8Kernels& int8_kernels_of(Int8Isa isa);

/// The best kernels of this machine with the same float32 arithmetic as `isa`.
const Int8Kernels& int8_kernels_for(Isa isa);

}  // namespace lockstep::cpu
