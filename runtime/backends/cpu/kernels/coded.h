// The inner loops of products with weights in codes (runtime/core/weight_format.h).
//
// A table of them is compiled for each instruction set and kind of dot product. A panel of weights in codes:
//
//   group 0    line 0       64 bytes of each strip: the codes of 16 rows and of 4 or 8 columns
//              line 1       …
//              scales       16 of each strip, in the type of the format
//              offsets      the same: zeros (1 byte, or 2 with codes of 8 bits) or minima; only formats with them
//   group 1    …
//
// A line becomes one step or more: what one instruction multiplies with 4 bytes of a row of x. One row or two expand
// lines in registers (`few_rows`). For more rows `expand` writes a slab in steps, which stays in the cache:
//
//   group 0    step 0       64 bytes of each strip
//              …
//              scales       16 float32 of each strip
//              offsets      16 numbers of 32 bits of each strip; only formats with them
//
// Codes of 8 bits for dots of bytes, with float32 scales and without offsets, already have that form. The sums of a
// group and their order are the same in both, so results do not depend on the number of rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/backends/cpu/isa.h"
#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/core/weight_format.h"

namespace lockstep::cpu {

/// What is multiplied, as 4 bytes of a row of x, in one step.
enum class DotKind : uint8_t {
  kFloats,  // one column in float32
  kBytes,   // four columns in integers of 8 bits: x quantised to 8 bits
  kDigits,  // the same, three times: x as integers of three digits of 8 bits, close to float32
};
constexpr bool has_bytes(DotKind dots) { return dots != DotKind::kFloats; }
/// Rows of integers that a row of x becomes.
constexpr int digits_of(DotKind dots) { return dots == DotKind::kDigits ? 3 : 1; }

constexpr int kLineBytes = 64;         // of one strip
constexpr int kStreamedCodedRows = 2;  // maximum rows of `few_rows`
constexpr int kCodedTileRows = 6;      // maximum rows (of integers) of one call of `product`
constexpr int kTiledCodedRows = 16;    // and of `tiled_product`
/// Columns of a group up to which sums of bytes are exact in 32 bits.
constexpr int64_t kMostByteGroup = 65536;

/// Columns of a step.
constexpr int columns_of_step(DotKind dots) { return has_bytes(dots) ? 4 : 1; }
/// Columns of a line, which has codes of 16 rows.
constexpr int columns_of_line(int bits) { return 32 / bits; }
/// Steps of a line.
constexpr int steps_of_line(DotKind dots, int bits) { return columns_of_line(bits) / columns_of_step(dots); }
/// The bit at which the code of a column is in the 32 bits of a row and a line. Bytes: of each byte first the lower
/// half, so that a line is two steps.
constexpr int bit_of_code(DotKind dots, int bits, int column) {
  return has_bytes(dots) ? 8 * (column % 4) + bits * (column / 4) : bits * column;
}

/// Bytes of a stored offset.
constexpr int64_t bytes_of_offset(GroupOffset offset, int bits, int64_t scale_bytes) {
  if (offset == GroupOffset::kNone) return 0;
  return offset == GroupOffset::kMinima ? scale_bytes : bits / 4;
}

/// The code that is multiplied as 0. Of e2m1, which is an integer of halves: 12. With x in 8 bits zeros are subtracted
/// from exact integers; in digits they are relative to the centre of the codes, so that they change a sum only a
/// little.
constexpr int centre_of(const WeightFormat& format, DotKind dots) {
  if (format.kind == CodeKind::kE2M1) return 12;
  const bool has_centre =
      dots == DotKind::kDigits ? format.offset != GroupOffset::kMinima : format.offset == GroupOffset::kNone;
  return has_centre ? 1 << (format.bits - 1) : 0;
}

/// A range of groups of K, summed into the accumulators at `level` of a stack, like `Segment`.
struct CodedSegment {
  int64_t first_line = 0, first_group = 0;
  int64_t groups = 0;
  int64_t last_lines = 0;  // of the last group
  int level = 0;
  bool opens = true;  // the accumulators start at 0
  int merges = 0;     // number of merges of the two topmost afterwards
  int root = -1;      // root completed afterwards
};

/// The codes of some strips of a panel.
struct CodedWeights {
  WeightFormat format;
  DotKind dots = DotKind::kFloats;
  const std::byte* data = nullptr;  // first group of the panel
  int panel_strips = 0;             // strips of the panel
  int first_strip = 0;
  int strips = 0;
  int64_t group_lines = 0;  // of each group except a range's last

  /// Bytes of a scale. Always inline, as all of this, because kernels of every instruction set call it.
  [[gnu::always_inline]] int64_t scale_bytes() const {
    return format.scale == ScaleType::kFloat32 ? 4 : format.scale == ScaleType::kPowerOfTwo ? 1 : 2;
  }
  [[gnu::always_inline]] int64_t offset_bytes() const {
    return bytes_of_offset(format.offset, format.bits, scale_bytes());
  }
  [[gnu::always_inline]] const std::byte* group_at(int64_t line, int64_t group) const {
    return data + panel_strips * (line * kLineBytes + group * kStrip * (scale_bytes() + offset_bytes()));
  }
};

/// Arranged rows of x (coded_packing.h). In digits, a row is three rows of integers, highest digits first; the second
/// has Σ x in units of the scale in place of its scales.
struct ArrangedRows {
  const std::byte* steps = nullptr;  // row 0
  const float* scales = nullptr;     // row 0, [groups]; bytes only
  const int32_t* sums = nullptr;     // row 0, [groups]: Σ of the integers; bytes only
  int64_t stride = 0;                // bytes between rows (of integers), in all three
  int rows = 0;                      // of x

  /// Field `first` of another row. Always inline, as above.
  template <typename T>
  [[gnu::always_inline]] T of_row(const T* first, int row, int64_t group) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(first) + row * stride)[group];
  }
};

/// All leaves of a plan in order, for few rows.
struct CodedFewRows : PanelStream {
  CodedWeights weights;  // of the first panel
  ArrangedRows x;        // 1 … kStreamedCodedRows rows
  const CodedSegment* begin = nullptr;
  const CodedSegment* end = nullptr;
};

/// Groups that `expand` writes in steps.
struct CodedExpansion {
  CodedWeights weights;
  CodedSegment segment;
  std::byte* to = nullptr;
};

/// One range of groups in steps.
///
/// `sums[row][column] += Σ over the groups, in order, of what they add` (runtime/graph/OPERATIONS.md, Weights in
/// codes).
struct GroupProduct {
  WeightFormat format;
  DotKind dots = DotKind::kFloats;
  const std::byte* weights = nullptr;  // first group, first strip
  int64_t step_stride = 0;             // bytes between steps; also for scales and offsets
  int64_t group_steps = 0;             // of each group except the last
  int64_t last_steps = 0;
  int64_t groups = 0;
  ArrangedRows x;         // from the first group on: 3 … kCodedTileRows, or … kTiledCodedRows; in digits 1 … 2
  int strips = 0;         // 1 … kPanelStrips
  float* sums = nullptr;  // [rows, kPanel]
  bool opens = false;     // accumulators start at 0 instead of `sums`
                       // Weights to prefetch meanwhile: `product` prefetches the line at next + i · next_stride in step
                       // i, `tiled_product`
  // `next_lines` lines with each tile of weights.
  const std::byte* next = nullptr;
  int64_t next_stride = 0;
  int next_lines = 0;
};

/// The result of quantising a group.
struct Int8Group {
  float scale = 0.0f;
  int32_t sum = 0;  // of the integers
};

/// Digits are from −127 to 127, as integers of 8 bits are.
constexpr float kDigitBase = 254.0f;
/// The result of dividing a group into digits: x = scale · (d0 · kDigitBase² + d1 · kDigitBase + d2).
struct DigitGroup {
  float scale = 0.0f;
  int32_t sums[3] = {};  // of the digits
};

/// A query in 16-bit integers: its scale, and −128 · Σ of the high and of the low parts.
struct QueryScale {
  float scale = 0.0f;
  int32_t high_offset = 0;
  int32_t low_offset = 0;
};

/// Attention over caches of integers, with products of bytes; both null without an instruction for 16 lanes of them,
/// where tiles are decoded.
struct CodeAttention {
  void (*attend)(const AttendedTile&) = nullptr;
  /// Makes a row of AttendedTile::q of `count` values: integers of 16 bits in two parts of int8, [4 · steps] the high
  /// one and [4 · steps] the low one, then QueryScale.
  void (*split_query)(const float* q, int64_t count, int64_t steps, std::byte* dst) = nullptr;
};

struct CodedKernels {
  void (*few_rows)(const CodedFewRows&);
  void (*expand)(const CodedExpansion&);
  void (*product)(const GroupProduct&);
  void (*tiled_product)(const GroupProduct&);  // the same for more rows, not in digits; null without AMX
  // Of bytes only, else null. Integers are [count, rounded up to a step], padded with zeros.
  /// `to_int8`.
  Int8Group (*quantise)(const float* values, int64_t count, int8_t* integers);
  /// The largest magnitude; NaN for a NaN and for an infinity.
  float (*magnitude)(const float* values, int64_t count);
  /// The digits of x / scale, rounded to integers up to 2^22: three rows of integers, `stride` bytes apart. The scale
  /// is a power of two, so that only bits below 2^-22 of `magnitude`, that of the group, are lost. A magnitude of NaN
  /// gives the scale NaN; one below 2^-100 gives scale and integers 0.
  DigitGroup (*to_digits)(const float* values, int64_t count, float magnitude, int8_t* integers, int64_t stride);
  CodeAttention attention = {};
};

/// Instruction sets of these products, ascending; those of bytes are separate, because an `Isa` may occur with either
/// of two.
enum class CodedIsa {
  kFloatsPortable,
  kFloatsAvx2,
  kFloatsAvx512,
  kBytesPortable,
  kBytesAvx2,
  kBytesAvxVnni,
  kBytesAvx512,
  kBytesAvx512Vnni,
  kBytesAmx
};
constexpr bool has_bytes(CodedIsa isa) { return isa >= CodedIsa::kBytesPortable; }

/// The instruction sets of the build that this machine has, ascending.
std::vector<CodedIsa> available_coded_isas();
/// `isa` must be one of the build's; calling the kernels needs a machine that has it.
const CodedKernels& coded_kernels_of(CodedIsa isa);
/// The best kernels of this machine with the same float32 arithmetic as `isa`.
const CodedKernels& coded_kernels_for(Isa isa, DotKind dots);

}  // namespace lockstep::cpu
