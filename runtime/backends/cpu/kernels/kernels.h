// The inner loops, compiled once per instruction set. A `Kernels` is a table of functions over raw memory; what calls
// them (linear.cpp, attention.cpp, …) is ordinary code. Each function's result for one row or one output element does
// not depend on how many others it is called with.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/backends/cpu/isa.h"
#include "runtime/core/dtype.h"

namespace lockstep::cpu {

constexpr int kStrip = 16;       // columns of one strip: one vector of float32
constexpr int kPanelStrips = 4;  // strips side by side in a packed panel
constexpr int kPanel = kStrip * kPanelStrips;
constexpr int kTileRows = 6;  // most rows of one call of `product`

/// `sums[row][column] += Σ over steps, in order, of x[row][step] · weights[step][column]`, one accumulator per element.
/// A step is one column of x, or two where the weights are pairs of bfloat16.
struct Product {
  const std::byte* weights = nullptr;  // step 0, first strip
  int64_t weight_stride = 0;           // bytes from one step to the next
  const std::byte* x = nullptr;        // row 0, step 0: float32, or bfloat16 pairs
  int64_t x_stride = 0;                // bytes from one row to the next
  int64_t steps = 0;
  float* sums = nullptr;
  int64_t sums_stride = 0;  // floats from one row to the next
  bool opens = false;       // the accumulators start at 0, not at `sums`
  float* left = nullptr;    // if set, `left += sum` is stored there (same stride), and `sums` is left as it was
  int rows = 0;             // 1 … kTileRows
  int strips = 0;           // 1 … kPanelStrips
};
using ProductFunction = void (*)(const Product&);

/// Rounds a tile of sums into rows of a tensor.
struct TileResult {
  const float* sums;  // [rows, kPanel]
  int rows;
  int columns;            // at most kPanel
  const std::byte* bias;  // [columns] of `bias_type`, or null
  DType bias_type;
  std::byte* dst;
  int64_t dst_stride;  // bytes
  DType dst_type;
};

/// One tile of keys in an online softmax: turns scores into weights and rescales what was summed before.
struct SoftmaxTile {
  float* scores;  // [rows, kPanel]: in q·k, out exp(scale · q·k − maximum); columns from `valid` on become 0
  int rows;
  int valid;
  float scale;
  float* maximum;          // [rows], updated
  float* sum;              // [rows, kStrip], lane sums, updated
  float* result;           // [rows, result_columns], rescaled
  int64_t result_columns;  // a multiple of kStrip
};

/// A row and what it is made of.
struct ConstRow {
  const std::byte* data;
  DType dtype;
};
struct Row {
  std::byte* data;
  DType dtype;
};

struct Kernels {
  Isa isa;
  bool bf16_pairs;  // bfloat16 weights are packed in pairs for `product_pairs`; otherwise x is float32

  ProductFunction product_pairs;  // weights and x bfloat16 pairs; null without `bf16_pairs`
  ProductFunction product_f32;    // weights float32, x float32
  ProductFunction product_bf16;   // weights bfloat16 (not paired), x float32
  ProductFunction product_f16;    // weights float16, x float32

  /// dst[i] += src[i].
  void (*add_floats)(float* dst, const float* src, int64_t count);
  void (*finish_tile)(const TileResult&);
  void (*softmax_tile)(const SoftmaxTile&);
  /// dst[i] = result[i] / (sum of the 16 lanes of `sum`).
  void (*finish_attention)(const float* result, const float* sum, Row dst, int64_t count);
  void (*convert)(ConstRow src, Row dst, int64_t count);
  void (*add)(ConstRow x, ConstRow y, Row dst, int64_t count);
  /// dst = w · round(x / sqrt(mean(x²) + epsilon)), the inner value rounded to dst's type.
  void (*rms_norm)(ConstRow x, ConstRow w, Row dst, int64_t count, double epsilon);
  /// dst = silu(gate) · up.
  void (*gated_silu)(ConstRow gate, ConstRow up, Row dst, int64_t count);
  /// Rotates one head: pairs (i, i + rotated / 2); elements from `rotated` on are copied.
  void (*rope_head)(ConstRow x, const float* cosines, const float* sines, Row dst, int64_t rotated, int64_t head_dim);
};

/// The kernels of one instruction set; calling them needs a machine that has it.
const Kernels& kernels_for(Isa isa);

}  // namespace lockstep::cpu
