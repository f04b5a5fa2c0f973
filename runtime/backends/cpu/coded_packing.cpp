#include "runtime/backends/cpu/coded_packing.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "runtime/core/int8_groups.h"
#include "runtime/graph/coded_weights.h"

namespace lockstep::cpu {
namespace {

using graph::Op;

template <typename T>
void put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}
template <typename T>
T get(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

void put_scale(ScaleType type, float scale, std::byte* to) {
  switch (type) {
    case ScaleType::kFloat32: return put(to, scale);
    case ScaleType::kBFloat16: return put(to, to_bfloat16(scale));
    case ScaleType::kFloat16: return put(to, to_float16(scale));
    case ScaleType::kPowerOfTwo: return put(to, static_cast<uint8_t>(std::bit_cast<uint32_t>(scale) >> 23));
  }
}

float get_scale(ScaleType type, const std::byte* from) {
  switch (type) {
    case ScaleType::kFloat32: return get<float>(from);
    case ScaleType::kBFloat16: return to_float(get<BFloat16>(from));
    case ScaleType::kFloat16: return to_float(get<Float16>(from));
    case ScaleType::kPowerOfTwo: break;
  }
  const uint32_t exponent = get<uint8_t>(from);
  if (exponent == 255) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(exponent == 0 ? 0x00400000u : exponent << 23);
}

bool is_nan_code(CodeKind kind, uint8_t code) { return kind == CodeKind::kE4M3 && (code & 0x7f) == 0x7f; }

/// Where the parts of a group of a panel are.
struct GroupPlace {
  int64_t width = 0;  // rows of the panel, in whole strips
  int64_t lines = 0;
  int64_t at = 0;  // of its first line, in the packed matrix

  static GroupPlace of(const CodedPacking& packing, int64_t panel, int64_t group) {
    const int64_t in_part = panel % packing.panels(), strips = packing.strips_of_panel(in_part);
    return {.width = strips * kStrip,
            .lines = packing.lines_of(group),
            .at = panel / packing.panels() * packing.bytes_of_part() + packing.panel_offset(in_part) +
                  packing.strip_bytes_before(group) * strips};
  }
  int64_t scales() const { return at + lines * width * 4; }
  int64_t offsets(const CodedPacking& packing) const { return scales() + width * size_of(packing.format.scale); }
};

/// The codes of a line in the order of `bit_of_code`.
template <DotKind kDots, int kBits>
uint32_t line_of(const uint8_t* codes) {
  uint32_t word = 0;
  for (int i = 0; i < columns_of_line(kBits); ++i) word |= uint32_t{codes[i]} << bit_of_code(kDots, kBits, i);
  return word;
}
using LineFunction = uint32_t (*)(const uint8_t*);
template <int kBits>
LineFunction line_function(DotKind dots) {
  return has_bytes(dots) ? line_of<DotKind::kBytes, kBits> : line_of<DotKind::kFloats, kBits>;
}

/// Writes the codes of one row of a group; returns whether one of them is NaN, for which 0 is written.
template <typename Line>
bool pack_lines(const CodedPacking& packing, const uint8_t* codes, int64_t count, int64_t lines, int64_t stride,
                Line line_of_codes, std::byte* to) {
  const int64_t columns = packing.line_columns();
  bool has_nan = false;
  if (packing.format.kind == CodeKind::kE4M3) {
    has_nan = std::any_of(codes, codes + count, [](uint8_t code) { return is_nan_code(CodeKind::kE4M3, code); });
  }
  for (int64_t line = 0; line < lines; ++line, to += stride) {
    const int64_t here = std::min(columns, count - line * columns);
    if (here == columns && !has_nan) {
      put(to, line_of_codes(codes + line * columns));
      continue;
    }
    std::array<uint8_t, 8> some{};
    for (int64_t i = 0; i < here && !has_nan; ++i) some[static_cast<size_t>(i)] = codes[line * columns + i];
    put(to, line_of_codes(some.data()));
  }
  return has_nan;
}

void pack_group(const CodedPacking& packing, int64_t panel, int64_t group, int64_t rows, const CodedRows& src,
                std::byte* dst) {
  const GroupPlace place = GroupPlace::of(packing, panel, group);
  const Range columns = packing.groups.of(group);
  const WeightFormat& format = packing.format;
  const LineFunction line_of_codes = format.bits == 4 ? line_function<4>(packing.dots) : line_function<8>(packing.dots);
  const int64_t scale_bytes = size_of(format.scale), offset_bytes = packing.offset_bytes();
  for (int64_t row = 0; row < rows; ++row) {
    const uint8_t* codes = src.codes.data() + row * packing.groups.columns + columns.begin;
    const auto at = static_cast<size_t>(row * packing.groups.count() + group);
    const bool has_nan = pack_lines(packing, codes, columns.size(), place.lines, place.width * 4, line_of_codes,
                                    dst + place.at + row * 4);
    const float scale = has_nan ? std::numeric_limits<float>::quiet_NaN() : src.scales[at];
    put_scale(format.scale, scale, dst + place.scales() + row * scale_bytes);
    std::byte* const offset = dst + place.offsets(packing) + row * offset_bytes;
    if (format.offset == GroupOffset::kMinima) put_scale(format.scale, src.offsets[at], offset);
    if (format.offset != GroupOffset::kZeros) continue;
    if (offset_bytes == 1) put(offset, static_cast<uint8_t>(src.offsets[at]));
    if (offset_bytes == 2) put(offset, static_cast<uint16_t>(src.offsets[at]));
  }
}

/// Writes rows that fill up the last strip.
void pack_no_rows(const CodedPacking& packing, int64_t panel, int64_t group, int64_t first, std::byte* dst) {
  const GroupPlace place = GroupPlace::of(packing, panel, group);
  const auto clear = [&](int64_t at, int64_t size) {
    std::memset(dst + at + first * size, 0, static_cast<size_t>((place.width - first) * size));
  };
  for (int64_t line = 0; line < place.lines; ++line) clear(place.at + line * place.width * 4, 4);
  clear(place.scales(), size_of(packing.format.scale));
  clear(place.offsets(packing), packing.offset_bytes());
}

/// The matrix of `node` that holds `parts` stacked matrices.
int64_t parts_of(const graph::Node& node) { return node.op == Op::kMoeExperts ? node.integer("experts") : 1; }

DotKind dots_of(const graph::Node& node, const WeightFormat& format) {
  if (graph::has_int8_activations(node)) return DotKind::kBytes;
  return format.kind == CodeKind::kE4M3 ? DotKind::kFloats : DotKind::kDigits;
}

/// Groups one after the other, without divisions.
class GroupWalk {
 public:
  GroupWalk(const CodedPacking& packing, int64_t group)
      : groups_(packing.groups),
        line_columns_(packing.line_columns()),
        group_lines_(packing.group_lines()),
        leaf_end_(group / groups_.per_leaf() * groups_.leaf),
        line_(packing.lines_before(group)),
        columns_(groups_.of(group)) {
    leaf_end_ = std::min(leaf_end_ + groups_.leaf, groups_.columns);
  }

  Range columns() const { return columns_; }
  int64_t line() const { return line_; }  // the group's first
  int64_t lines() const {
    if (columns_.size() == groups_.width) return group_lines_;
    return (columns_.size() + line_columns_ - 1) / line_columns_;
  }
  void next() {
    line_ += lines();
    if (columns_.end == leaf_end_) leaf_end_ = std::min(leaf_end_ + groups_.leaf, groups_.columns);
    columns_ = {columns_.end, std::min(columns_.end + groups_.width, leaf_end_)};
  }

 private:
  const ColumnGroups groups_;
  const int64_t line_columns_, group_lines_;
  int64_t leaf_end_;
  int64_t line_;
  Range columns_;
};

/// Groups of a row of x, arranged a piece at a time.
class Arranger {
 public:
  Arranger(const Kernels& kernels, const CodedPacking& packing, ConstRow x, std::byte* dst)
      : kernels_(kernels),
        coded_(coded_kernels_for(kernels.isa, packing.dots)),
        x_(x),
        columns_(packing.groups.columns),
        dots_(packing.dots),
        line_bytes_(packing.steps_of_line() * 4),
        row_bytes_(packing.row_bytes()),
        dst_(dst),
        scales_(dst + packing.scales_offset()),
        sums_(dst + packing.sums_offset()) {}

  void run(int64_t group, const GroupWalk& at) {
    const Range columns = at.columns();
    auto* const integers = reinterpret_cast<int8_t*>(dst_ + at.line() * line_bytes_);
    const int64_t bytes = at.lines() * line_bytes_;
    if (dots_ == DotKind::kFloats) return copy(columns, dst_ + at.line() * line_bytes_, bytes);
    const int64_t made = (columns.size() + 3) / 4 * 4;
    for (int digit = 0; made < bytes && digit < digits_of(dots_); ++digit) {
      std::memset(integers + digit * row_bytes_ + made, 0, static_cast<size_t>(bytes - made));
    }
    if (dots_ == DotKind::kDigits) return to_digits(group, columns, integers);
    const Int8Group of_x = coded_.quantise(floats_of(columns), columns.size(), integers);
    put(scales_ + group * 4, of_x.scale);
    put(sums_ + group * 4, of_x.sum);
  }

 private:
  ConstRow from(int64_t column) const { return {x_.data + column * static_cast<int64_t>(size_of(x_.dtype)), x_.dtype}; }
  void copy(Range columns, std::byte* to, int64_t bytes) {
    const int64_t made = columns.size() * 4;
    kernels_.convert(from(columns.begin), {to, DType::kFloat32}, columns.size());
    std::memset(to + made, 0, static_cast<size_t>(bytes - made));
  }
  /// At most kMostInt8Group columns in float32, valid until the next call.
  const float* floats_of(Range columns) {
    if (x_.dtype == DType::kFloat32) return reinterpret_cast<const float*>(x_.data) + columns.begin;
    if (columns.begin < held_.begin || columns.end > held_.end) {
      held_ = {columns.begin, std::min(columns.begin + kMostInt8Group, columns_)};
      kernels_.convert(from(held_.begin), {reinterpret_cast<std::byte*>(floats_.data()), DType::kFloat32},
                       held_.size());
    }
    return floats_.data() + (columns.begin - held_.begin);
  }
  template <typename Work>
  static void for_pieces(Range columns, Work work) {
    for (; columns.begin < columns.end; columns.begin += kMostInt8Group) {
      work(Range{columns.begin, std::min(columns.begin + kMostInt8Group, columns.end)});
    }
  }
  void to_digits(int64_t group, Range columns, int8_t* integers) {
    float magnitude = 0.0f;
    for_pieces(columns, [&](Range piece) {
      const float of_piece = coded_.magnitude(floats_of(piece), piece.size());
      if (!(of_piece <= magnitude)) magnitude = of_piece;
    });
    DigitGroup all;
    for_pieces(columns, [&](Range piece) {
      const DigitGroup made = coded_.to_digits(floats_of(piece), piece.size(), magnitude,
                                               integers + (piece.begin - columns.begin), row_bytes_);
      all.scale = made.scale;
      for (int digit = 0; digit < 3; ++digit) all.sums[digit] += made.sums[digit];
    });
    constexpr auto kBase = static_cast<int64_t>(kDigitBase);
    const int64_t sum = (all.sums[0] * kBase + all.sums[1]) * kBase + all.sums[2];
    put(scales_ + group * 4, all.scale);
    put(scales_ + row_bytes_ + group * 4, static_cast<float>(sum));
    for (int digit = 0; digit < 3; ++digit) put(sums_ + digit * row_bytes_ + group * 4, all.sums[digit]);
  }

  const Kernels& kernels_;
  const CodedKernels& coded_;
  const ConstRow x_;
  const int64_t columns_;
  const DotKind dots_;
  const int64_t line_bytes_, row_bytes_;
  std::byte *const dst_, *const scales_, *const sums_;
  Range held_{0, 0};
  alignas(64) std::array<float, kMostInt8Group> floats_;
};

}  // namespace

int64_t CodedPacking::lines_before(int64_t group) const {
  // Groups before another one are full, or end a full leaf; only the very last one may be narrower.
  if (group > 0 && group == groups.count()) return lines_before(group - 1) + lines_of(group - 1);
  const int64_t per_leaf = groups.per_leaf(), full = group_lines();
  const int64_t last_width = groups.leaf - (per_leaf - 1) * groups.width;
  const int64_t leaf_lines = (per_leaf - 1) * full + (last_width + line_columns() - 1) / line_columns();
  return group / per_leaf * leaf_lines + group % per_leaf * full;
}

CodedWeights CodedPacking::weights_of(const std::byte* data, int64_t panel, Range of) const {
  return {.format = format,
          .dots = dots,
          .data = data + panel_offset(panel),
          .panel_strips = static_cast<int>(strips_of_panel(panel)),
          .first_strip = static_cast<int>(of.begin),
          .strips = static_cast<int>(of.size()),
          .group_lines = group_lines()};
}

int64_t CodedPacking::row_bytes() const {
  const int64_t bytes = (has_bytes(dots) ? sums_offset() + groups.count() * 4 : scales_offset()) + 63;
  // Rows at distances of a multiple of 4 KiB would share few sets of the first-level cache.
  return bytes / 64 * 64 % 1024 == 0 ? bytes / 64 * 64 + 64 : bytes / 64 * 64;
}

ArrangedRows CodedPacking::arranged_rows(const std::byte* first, int64_t stride, int64_t rows) const {
  return {.steps = first,
          .scales = reinterpret_cast<const float*>(first + scales_offset()),
          .sums = reinterpret_cast<const int32_t*>(first + sums_offset()),
          .stride = stride / digits_of(dots),
          .rows = static_cast<int>(rows)};
}

bool is_multiplied(const WeightFormat& format, int64_t columns) {
  if (format.kind != CodeKind::kInteger) return format.offset == GroupOffset::kNone;
  return std::min(format.group, columns) <= kMostByteGroup;
}

std::optional<CodedPacking> coded_packing_of(const graph::Graph& graph, const graph::Node& node, size_t operand) {
  if (node.op == Op::kEmbedding || !graph::may_be_coded(node.op, operand)) return std::nullopt;
  const std::optional<WeightFormat> format = graph::format_of(graph, node, operand);
  if (!format) return std::nullopt;
  const TensorType& type = graph.value(node.operands[operand]).type;
  const int64_t parts = parts_of(node);
  return CodedPacking{.n = parts > 0 ? type.shape[0] / parts : 0,
                      .groups = graph::column_groups(graph, node, operand),
                      .format = *format,
                      .dots = dots_of(node, *format),
                      .parts = parts};
}

void pack_coded_panel(const CodedPacking& packing, int64_t panel, const CodedRows& rows, std::byte* dst) {
  const int64_t count = std::min<int64_t>(kPanel, packing.n - panel % packing.panels() * kPanel);
  for (int64_t group = 0; group < packing.groups.count(); ++group) {
    pack_group(packing, panel, group, count, rows, dst);
    pack_no_rows(packing, panel, group, count, dst);
  }
}

void decode_coded_row(const CodedPacking& packing, const std::byte* packed, int64_t row, float* dst) {
  const int64_t in_part = row % packing.n, panel = row / packing.n * packing.panels() + in_part / kPanel;
  const int64_t lane = in_part % kPanel, columns_of_line = packing.line_columns();
  const WeightFormat& format = packing.format;
  for (int64_t group = 0; group < packing.groups.count(); ++group) {
    const GroupPlace place = GroupPlace::of(packing, panel, group);
    const float scale = get_scale(format.scale, packed + place.scales() + lane * size_of(format.scale));
    const std::byte* const at = packed + place.offsets(packing) + lane * packing.offset_bytes();
    float offset = 0.0f;
    if (format.offset == GroupOffset::kMinima) offset = get_scale(format.scale, at);
    if (format.offset == GroupOffset::kZeros) offset = format.bits == 4 ? get<uint8_t>(at) : get<uint16_t>(at);
    const Range columns = packing.groups.of(group);
    for (int64_t i = 0; i < columns.size(); ++i) {
      const auto word = get<uint32_t>(packed + place.at + (i / columns_of_line * place.width + lane) * 4);
      const int bit = bit_of_code(packing.dots, format.bits, static_cast<int>(i % columns_of_line));
      const auto code = static_cast<uint8_t>(word >> bit & ((1u << format.bits) - 1));
      dst[columns.begin + i] = decode(format, code, scale, offset);
    }
  }
}

void arrange_coded(const Kernels& kernels, const CodedPacking& packing, ConstRow x, Range groups, std::byte* dst) {
  if (groups.size() <= 0) return;
  Arranger arranger(kernels, packing, x, dst);
  GroupWalk walk(packing, groups.begin);
  for (int64_t group = groups.begin; group < groups.end; ++group, walk.next()) arranger.run(group, walk);
}

}  // namespace lockstep::cpu
