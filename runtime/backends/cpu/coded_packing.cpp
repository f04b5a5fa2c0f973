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
  if (dots == DotKind::kBytes) return line_of<DotKind::kBytes, kBits>;
  return dots == DotKind::kPairs ? line_of<DotKind::kPairs, kBits> : line_of<DotKind::kFloats, kBits>;
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

DotKind dots_of(const Kernels& kernels, const graph::Node& node, DType dtype) {
  if (graph::has_int8_activations(node)) return DotKind::kBytes;
  return kernels.bf16_pairs && dtype == DType::kBFloat16 ? DotKind::kPairs : DotKind::kFloats;
}

/// Groups of x arranged by one worker, a piece of a group at a time.
class Arranger {
 public:
  Arranger(const Kernels& kernels, const CodedPacking& packing, ConstRow x)
      : kernels_(kernels), coded_(coded_kernels_for(kernels.isa, packing.dots)), packing_(packing), x_(x) {}

  void run(int64_t group, std::byte* dst) {
    const Range columns = packing_.groups.of(group);
    std::byte* const steps = dst + packing_.lines_before(group) * packing_.steps_of_line() * 4;
    const int64_t bytes = packing_.lines_of(group) * packing_.steps_of_line() * 4;
    std::byte* const sum = dst + packing_.sums_offset() + group * 4;
    if (packing_.dots == DotKind::kBytes) {
      const int64_t made = (columns.size() + 3) / 4 * 4;
      std::memset(steps + made, 0, static_cast<size_t>(bytes - made));
      const Int8Group of_x = coded_.quantise(floats_of(columns), columns.size(), reinterpret_cast<int8_t*>(steps));
      put(dst + packing_.scales_offset() + group * 4, of_x.scale);
      return put(sum, of_x.sum);
    }
    const DType type = packing_.dots == DotKind::kPairs ? DType::kBFloat16 : DType::kFloat32;
    const int64_t made = columns.size() * static_cast<int64_t>(size_of(type));
    kernels_.convert(from(columns.begin), {steps, type}, columns.size());
    std::memset(steps + made, 0, static_cast<size_t>(bytes - made));
    if (packing_.needs_sums()) put(sum, sum_of(columns));
  }

 private:
  ConstRow from(int64_t column) const { return {x_.data + column * static_cast<int64_t>(size_of(x_.dtype)), x_.dtype}; }
  const float* floats_of(Range columns) {
    kernels_.convert(from(columns.begin), {reinterpret_cast<std::byte*>(floats_.data()), DType::kFloat32},
                     columns.size());
    return floats_.data();
  }
  float sum_of(Range columns) {
    float sum = 0.0f;
    for (; columns.begin < columns.end; columns.begin += kMostInt8Group) {
      const Range piece{columns.begin, std::min(columns.begin + kMostInt8Group, columns.end)};
      sum += coded_.sum(floats_of(piece), piece.size());
    }
    return sum;
  }

  const Kernels& kernels_;
  const CodedKernels& coded_;
  const CodedPacking& packing_;
  const ConstRow x_;
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
          .data = data + panel_offset(panel),
          .panel_strips = static_cast<int>(strips_of_panel(panel)),
          .first_strip = static_cast<int>(of.begin),
          .strips = static_cast<int>(of.size()),
          .group_lines = group_lines()};
}

bool CodedPacking::needs_arranging(DType dtype) const {
  if (needs_sums() || (dots == DotKind::kPairs ? dtype != DType::kBFloat16 : dtype != DType::kFloat32)) return true;
  return steps() * columns_of_step(dots) != groups.columns;
}

ArrangedRows CodedPacking::arranged_rows(const std::byte* first, int64_t stride, int64_t rows) const {
  return {.steps = first,
          .scales = reinterpret_cast<const float*>(first + scales_offset()),
          .sums = first + sums_offset(),
          .stride = stride,
          .rows = static_cast<int>(rows)};
}

std::optional<CodedPacking> coded_packing_of(const Kernels& kernels, const graph::Graph& graph, const graph::Node& node,
                                             size_t operand) {
  if (node.op == Op::kEmbedding || !graph::may_be_coded(node.op, operand)) return std::nullopt;
  const std::optional<WeightFormat> format = graph::format_of(graph, node, operand);
  if (!format) return std::nullopt;
  const TensorType& type = graph.value(node.operands[operand]).type;
  const int64_t parts = parts_of(node);
  return CodedPacking{.n = parts > 0 ? type.shape[0] / parts : 0,
                      .groups = graph::column_groups(graph, node, operand),
                      .format = *format,
                      .dots = dots_of(kernels, node, type.dtype),
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
  Arranger arranger(kernels, packing, x);
  for (int64_t group = groups.begin; group < groups.end; ++group) arranger.run(group, dst);
}

}  // namespace lockstep::cpu
