// The inner loops, compiled once per instruction set. A `Kernels` is a table of functions over raw memory; its callers
// (linear.cpp, attention.cpp, …) are ordinary code. A function's result for one row or output element does not depend
// on the number of others in the call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/backends/cpu/isa.h"
#include "runtime/core/dtype.h"

namespace lockstep::cpu {

constexpr int kStrip = 16;       // columns of a strip: one vector of float32
constexpr int kPanelStrips = 4;  // strips of a packed panel
constexpr int kPanel = kStrip * kPanelStrips;
constexpr int kTileRows = 6;  // maximum rows of one call of `product`
constexpr int64_t kTileFloats = kTileRows * kPanel;
/// What decays are reduced by, so that they end at 0 and not among the denormal numbers, whose products take many times
/// as long. It is too little to change one above 2^-72.
constexpr float kLeastDecay = 0x1p-96f;

/// `sums[row][column] += Σ over steps, in order, of x[row][step] · weights[step][column]`, one accumulator per element.
/// A step is one column of x, or two where the weights are pairs of bfloat16.
struct Product {
  const std::byte* weights = nullptr;  // step 0, first strip
  int64_t weight_stride = 0;           // bytes between steps
  const std::byte* x = nullptr;        // row 0, step 0: float32, or bfloat16 pairs
  int64_t x_stride = 0;                // bytes between rows
  int64_t steps = 0;
  int64_t next_steps = 0;  // if set (Kernels::joins_leaves), the following steps are summed separately and then added
  float* sums = nullptr;
  int64_t sums_stride = 0;   // floats between rows
  bool opens = false;        // accumulators start at 0 instead of `sums`
  float* left = nullptr;     // if set, `left += sum` is stored there (same stride), and `sums` is unchanged
  int further = 0;           // number of further sums to the left to join, each kTileFloats before the last
  std::byte* dst = nullptr;  // if set, the result is rounded to rows there instead, `dst_stride` bytes apart
  int64_t dst_stride = 0;
  DType dst_type = DType::kFloat32;  // or bfloat16
  const float* routes = nullptr;     // if set, [rows]: row r, times routes[r], is added to row places[r] of `left`
  const int32_t* places = nullptr;   // [rows]
  int rows = 0;                      // 1 … kTileRows
  int strips = 0;                    // 1 … kPanelStrips
  StreamPrefetch stream_prefetch;    // of one or two rows
};
using ProductFunction = void (*)(const Product&);

/// A range of K, summed into the accumulators at `level` of a stack (linear.h).
struct Segment {
  int64_t begin = 0;  // first step
  int64_t steps = 0;
  int64_t next_steps = 0;  // of a second leaf that is added (Product); not for few rows
  int level = 0;
  bool opens = false;  // the accumulators start at 0
  int merges = 0;      // number of merges of the two topmost afterwards
  int root = -1;       // root completed afterwards
};

/// Rounds a tile of sums into rows of a tensor.
struct TileResult {
  const float* sums = nullptr;  // [rows, kPanel]
  int rows = 0;
  int64_t columns = 0;              // at most kPanel
  const std::byte* bias = nullptr;  // [columns] of `bias_type`, or null
  DType bias_type = DType::kFloat32;
  std::byte* dst = nullptr;
  int64_t dst_stride = 0;  // bytes
  DType dst_type = DType::kFloat32;
};

/// Adjacent panels that each execute a whole plan in turn, and the destination of their complete roots.
struct PanelStream {
  float* stack = nullptr;   // [levels, kFewRowsTile, kPanel]
  TileResult result;        // of root 0: all columns from the first panel on; without `sums` and `rows`
  int64_t root_stride = 0;  // bytes between the results of roots
  int64_t panels = 1;
  int64_t panel_stride = 0;        // bytes between the weights of panels
  StreamPrefetch stream_prefetch;  // of one or two rows; may reach beyond the end
};

/// Segments in order for few rows, equivalent to single calls of `product` and merges.
struct FewRows : PanelStream {
  const std::byte* weights = nullptr;  // step 0, first strip
  int64_t weight_stride = 0;           // bytes between steps
  const std::byte* x = nullptr;        // row 0, step 0: float32, or bfloat16 pairs
  int64_t x_stride = 0;                // bytes between rows
  const Segment* begin = nullptr;
  const Segment* end = nullptr;
  int rows = 0;    // 1 … kFewRowsTile; without AVX-512 1 … kTileRows
  int strips = 0;  // 1 … kPanelStrips, of each panel
  // With 4 to 6 rows, weights to prefetch meanwhile: step i of a segment prefetches the line at (the segment's first
  // weights + ahead + its steps · ahead_offset + i · ahead_stride).
  int64_t ahead = 0;  // 0: none
  int64_t ahead_offset = 0;
  int64_t ahead_stride = 0;
};
constexpr int kFewRowsTile = 8;
constexpr int64_t kFewRowsFloats = kFewRowsTile * kPanel;
using FewRowsFunction = void (*)(const FewRows&);

/// Segments in order for any number of rows, with AMX. All segments have the same number of steps modulo kTileSteps.
struct TiledRows {
  const std::byte* weights = nullptr;  // step 0, first strip
  int64_t weight_stride = 0;           // bytes between steps
  const std::byte* x = nullptr;        // row 0, step 0: bfloat16 pairs
  int64_t x_stride = 0;                // bytes between rows
  const Segment* begin = nullptr;      // without `next_steps`
  const Segment* end = nullptr;
  float* stack = nullptr;    // [levels, rows, kPanel]
  int64_t level_floats = 0;  // floats between levels
  int64_t rows = 0;
  int strips = 0;  // 1 … kPanelStrips
  // Weights of the next call to prefetch meanwhile, as many bytes as in this one; null: none.
  const std::byte* next_weights = nullptr;
};
constexpr int kTileSteps = 16;
/// Up to this many rows a tile product is limited by memory, and reads its weights in one stream.
constexpr int kMostStreamedRows = 128;
using TiledFunction = void (*)(const TiledRows&);

/// The activation functions between two products. `kClampedSwiglu` (gpt-oss) exists only gated, with `limit` and
/// `alpha`.
enum class ActivationKind { kSilu, kSigmoid, kGelu, kGeluTanh, kRelu, kSquaredRelu, kClampedSwiglu };
struct Activation {
  ActivationKind kind = ActivationKind::kSilu;
  float limit = 0.0f;
  float alpha = 0.0f;
};

/// How routes follow from logits (runtime/graph/OPERATIONS.md, Routes).
struct RouteRule {
  int64_t chosen = 1;
  bool is_sigmoid = false;      // scores: else softmax
  bool is_divided = true;       // by the sum of the chosen's scores
  const float* bias = nullptr;  // [experts], of the choice; null: none
  int64_t groups = 1;
  int64_t kept_groups = 1;
  bool by_best_two = false;
  float least_sum = 0.0f;
  float scale = 1.0f;
};

/// The factor of an RMS norm beside its weight: (w + offset) · x / root.
struct NormFactor {
  float offset = 0.0f;
  bool rounds = true;  // x / root, to the type of x; only without an offset
};

/// Rounds activation(gate + bias) · (up + bias) of a tile of sums into rows of a tensor.
struct GatedTile {
  const float* gate;  // [rows, kPanel], like `up`
  const float* up;
  int rows;
  int columns;                 // at most kPanel
  const std::byte* gate_bias;  // [columns] of `bias_type`, like `up_bias`; both or neither are null
  const std::byte* up_bias;
  DType bias_type;
  Activation activation;
  std::byte* dst;
  int64_t dst_stride;  // bytes
  DType dst_type;
};

/// Adds route · (sum + bias) of a tile to some rows of `totals`, each with its own route.
struct RoutedTile {
  const float* sums;  // [rows, kPanel]
  int rows;
  int columns;            // at most kPanel
  const std::byte* bias;  // [columns] of `bias_type`, or null
  DType bias_type;
  const float* routes;    // [rows]
  const int32_t* places;  // [rows]: row of `totals`
  float* totals;          // [*, kPanel]; the columns up to the next strip are overwritten
};

/// One tile of keys in an online softmax: turns scores into weights and rescales earlier sums.
struct SoftmaxTile {
  float* scores;  // [rows, kPanel]: in q·k, out exp(score − maximum); columns outside [begin, end) become 0
  int rows;
  int begin, end;          // visible keys of the rows
  float scale;             // score = scale · q·k,
  float soft_cap;          // then c · tanh(score / c), unless 0,
  const float* slope;      // [rows], or null: then + slope · (key − position),
  const float* distance;   // [rows], or null: key − position for the tile's first key
  float* maximum;          // [rows], updated
  float* sum;              // [rows, kStrip], lane sums, updated
  float* result;           // [rows, result_columns], rescaled
  int64_t result_columns;  // a multiple of kStrip
};

/// Rows over one tile of keys and values in pairs of bfloat16 or in 8-bit integers (kv_layout.h). Weights are powers of
/// two, rounded to fewer bits: 2^(score · log2 e − origin).
struct AttendedTile {
  const std::byte* q;          // [rows, 2 · steps] bfloat16, or rows of CodeAttention::split_query
  int64_t q_stride;            // bytes
  const std::byte* keys;       // [steps, kPanel, 2], or [steps, kPanel, 4] and the scales
  const std::byte* values;     // [kPanel / 2, columns, 2], or [kPanel / 4, columns, 4] and the scales
  const std::byte* next_keys;  // of the next tile, for prefetching; or null, like next_values
  const std::byte* next_values;
  int64_t steps;
  int64_t columns;   // of values and result, a multiple of kStrip
  int rows;          // 1 … Kernels::attended_rows, or kTileRows with integers
  bool is_whole;     // every row sees the whole tile; otherwise row r sees the keys [begin[r], end[r])
  const int* begin;  // [rows]
  const int* end;
  float scale;  // as in SoftmaxTile
  float soft_cap;
  const float* slope;
  const float* distance;
  float* origin;  // [rows], integers, or −FLT_MAX before the first key; updated
  float* sum;     // [rows, kStrip], lane sums of the weights, updated
  float* result;  // [rows, columns], weighted sums of the values, updated
};
constexpr float kLog2E = 1.44269504f;
constexpr int kMostAttendedRows = 192;

/// Rounding to numbers of 8 bits (fake_quantise in runtime/graph/OPERATIONS.md).
struct FakeQuantisation {
  bool is_e4m3 = false;          // else integers
  int64_t group = 0;             // columns that share a scale
  const float* scale = nullptr;  // one for all, or null: from each group's largest magnitude
};

/// A row with its element type.
struct ConstRow {
  const std::byte* data;
  DType dtype;
};
struct Row {
  std::byte* data;
  DType dtype;
};

/// Channels of one row convolved with their taps.
struct ConvolvedRow {
  const std::byte* weights;  // [taps, channels] of `dtype`; the steps `weight_stride` bytes apart
  int64_t weight_stride;
  const std::byte* const* rows;  // [taps]: the channels of the row that each tap reads, or null: none
  int taps;
  int64_t channels;
  bool activates;  // by `activation`
  Activation activation;
  DType dtype;  // of weights, rows and dst
  std::byte* dst;
};

/// Copies the first `columns` of a tile of keys to a tile of values with `padded` columns (kv_layout.h); the columns
/// between are left as they are.
using TransposeFunction = void (*)(const std::byte* keys, int64_t columns, int64_t padded, std::byte* values);

using RopeFunction = void (*)(ConstRow x, const float* cosines, const float* sines, Row dst, int64_t rotated,
                              int64_t head_dim);

struct Kernels {
  Isa isa;
  bool bf16_pairs;    // bfloat16 weights are packed in pairs for `product_pairs`; otherwise x is float32
  bool joins_leaves;  // the products support `next_steps`: there are enough registers

  ProductFunction product_pairs;              // weights and x bfloat16 pairs; null without `bf16_pairs`
  FewRowsFunction few_rows_pairs;             // the same for few rows of a whole plan; null if tiles replace it
  TiledFunction tiled_pairs;                  // the same for all rows of a plan; null without AMX
  void (*attend_pairs)(const AttendedTile&);  // over caches in pairs; null without `bf16_pairs`
  int attended_rows;                          // maximum rows of one call of it, at most kMostAttendedRows
  ProductFunction product_f32;                // weights float32, x float32
  ProductFunction product_bf16;               // weights bfloat16 (not paired), x float32
  ProductFunction product_f16;                // weights float16, x float32
  int streamed_rows;             // up to this many rows, the next four take all segments of many panels per call
  FewRowsFunction few_rows_f32;  // the same kinds of weights as above
  FewRowsFunction few_rows_bf16;
  FewRowsFunction few_rows_f16;

  /// dst[i] += src[i].
  void (*add_floats)(float* dst, const float* src, int64_t count);
  void (*finish_tile)(const TileResult&);
  void (*softmax_tile)(const SoftmaxTile&);
  /// dst[i] = result[i] / (sum of the 16 lanes of `sum`). `result` is [count], padded to a whole strip.
  void (*finish_attention)(const float* result, const float* sum, Row dst, int64_t count);
  /// Tiles of keys and values in 8 bits (kv_layout.h) as float32: [padded, kPanel] and [kPanel, padded].
  void (*decode_keys)(DType dtype, const std::byte* tile, int64_t padded, float* dst);
  void (*decode_values)(DType dtype, const std::byte* tile, int64_t padded, float* dst);
  TransposeFunction transpose_16;     // elements of 16 bits
  TransposeFunction transpose_32;     // of 32 bits
  TransposeFunction transpose_pairs;  // of 16 bits: keys in pairs of columns, values in pairs of tokens
  void (*convert)(ConstRow src, Row dst, int64_t count);
  void (*add)(ConstRow x, ConstRow y, Row dst, int64_t count);
  /// dst = x · y. All three have one type.
  void (*multiply)(ConstRow x, ConstRow y, Row dst, int64_t count);
  void (*scale)(ConstRow x, Row dst, int64_t count, float factor);
  /// dst = cap · tanh(x / cap).
  void (*soft_cap)(ConstRow x, Row dst, int64_t count, float cap);
  /// dst = max(x − (mean + deviations · s), 0) with the row's standard deviation s. Both have one type.
  void (*cut_off)(ConstRow x, Row dst, int64_t count, float deviations);
  /// dst = codes · scale. dst is float32.
  void (*fake_quantise)(ConstRow x, float* dst, int64_t count, FakeQuantisation how);
  /// dst = x · (sqrt(mean(like²)) / sqrt(max(mean(x²), least))). All three have one type.
  void (*match_magnitude)(ConstRow x, ConstRow like, Row dst, int64_t count, float least);
  /// dst = Σ factors[i] · x[i], in order. The terms and dst have one type.
  void (*weighted_sum)(const ConstRow* x, const float* factors, int64_t terms, Row dst, int64_t count);
  /// dst = (w + offset) · (x / sqrt(mean(x²) + epsilon)); w is 1 if it has no data. x, w and dst have one type.
  void (*rms_norm)(ConstRow x, ConstRow w, Row dst, int64_t count, double epsilon, NormFactor factor);
  /// dst = w · (x − mean) / sqrt(variance + epsilon) + b. All four have one type.
  void (*layer_norm)(ConstRow x, ConstRow w, ConstRow b, Row dst, int64_t count, double epsilon, float offset);
  /// dst = activation(x). Both have one type.
  void (*activate)(Activation activation, ConstRow x, Row dst, int64_t count);
  /// dst = activation(gate) · up. All three have one type.
  void (*gate)(Activation activation, ConstRow gate, ConstRow up, Row dst, int64_t count);
  /// dst = activation(Σ weight · row), in the order of the taps.
  void (*convolve)(const ConvolvedRow&);
  /// dst = x · scale / sqrt(Σ x² + epsilon).
  void (*normalise)(const float* x, float* dst, int64_t count, float epsilon, float scale);
  /// dst[i] = x[i] · e^(now − then[i]), less kLeastDecay of x[i].
  void (*decay)(const float* x, const float* then, float now, float* dst, int64_t count);
  void (*gate_tile)(const GatedTile&);
  void (*add_routed)(const RoutedTile&);
  /// dst = the routes of the chosen experts (ties to the first), 0 elsewhere; both [count]. NaN is never chosen; if no
  /// entry can be chosen, all of dst is NaN.
  void (*route)(const float* logits, float* dst, int64_t count, const RouteRule& rule);
  /// Rotates one head; elements from `rotated` on are copied. `rope_halves` rotates pairs (i, i + rotated / 2) by
  /// cosines and sines [rotated / 2]; `rope_neighbours` rotates pairs (2i, 2i + 1) by cosines and sines [rotated]: each
  /// cosine twice, each sine first negated, then unchanged.
  RopeFunction rope_halves;
  RopeFunction rope_neighbours;
};

/// The kernels of one of the build's instruction sets; calling them needs a machine that has it.
const Kernels& kernels_for(Isa isa);

}  // namespace lockstep::cpu
