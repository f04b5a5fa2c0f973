// The inner loops of products in 8 bits (runtime/core/int8_groups.h), compiled once per instruction set. Sums of a
// group are integers and exact, and what is done in float32 is the same operations in the same order in all of them, so
// they agree to the bit wherever a multiplication and an addition are fused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/backends/cpu/isa.h"
#include "runtime/backends/cpu/kernels/kernels.h"

namespace lockstep::cpu {

constexpr int kInt8Columns = 4;                        // columns of K that one lane multiplies at once: a step
constexpr int kInt8StripStep = kStrip * kInt8Columns;  // bytes of a strip's step
constexpr int kInt8TileRows = 6;                       // most rows of one call of `product`
constexpr int kInt8TiledRows = 16;                     // and of `tiled_product`

/// Some leaves that are alike and follow each other in K, of one or many groups. Weights are unsigned (128 added), x is
/// signed, as `quantise` leaves it.
///
/// `sums[leaf][row][column] += Σ over the leaf's groups, in order, of (Σ of the group's products) · scale of w · scale
/// of x`.
struct Int8Product {
  const std::byte* weights = nullptr;  // first group, first strip: its steps, then the scales f32 [strips, kStrip]
  int64_t step_stride = 0;             // bytes from one step to the next, and of the scales
  const std::byte* x = nullptr;        // row 0, first group: int8, four columns a step
  const float* x_scales = nullptr;     // row 0, first group
  const int32_t* x_offsets = nullptr;  // row 0, first group: −128 · Σ of its integers
  int64_t x_stride = 0;                // bytes from one row to the next, in all three
  int64_t leaves = 1;
  int64_t groups = 0;       // of each leaf
  int64_t group_steps = 0;  // of each group
  int64_t last_steps = 0;   // of a leaf's last group
  float* sums = nullptr;    // row 0 of the first leaf
  int64_t sums_stride = 0;  // floats from one row to the next
  int64_t leaf_stride = 0;  // floats from one leaf to the next
  bool opens = false;       // the accumulators start at 0, not at `sums`
  int rows = 0;             // 1 … kInt8TileRows, or kInt8TiledRows
  int strips = 0;           // 1 … kPanelStrips
  // `tiled_product` asks for so many lines from here on with each tile of weights: what is read later.
  const std::byte* next = nullptr;
  int next_lines = 0;
};

/// A group as integers.
struct Int8Group {
  float scale = 0.0f;
  int32_t sum = 0;  // of the integers
};

struct Int8Kernels {
  void (*product)(const Int8Product&);
  void (*tiled_product)(const Int8Product&);  // the same for one leaf and more rows; null without a unit for tiles
  /// `to_int8`: integers [count, rounded up to a step], zeros at the end.
  Int8Group (*quantise)(const float* values, int64_t count, int8_t* integers);
};

/// What multiplies bytes, from the least to the most capable; an `Isa` may come with either of two.
enum class Int8Isa { kPortable, kAvx2, kAvxVnni, kAvx512, kAvx512Vnni, kAmx };

/// Those that this machine has, ascending.
std::vector<Int8Isa> available_int8_isas();
/// Calling them needs a machine that has it.
const Int8Kernels& int8_kernels_of(Int8Isa isa);

/// The best kernels of this machine that compute in float32 as `isa` does.
const Int8Kernels& int8_kernels_for(Isa isa);

}  // namespace lockstep::cpu
