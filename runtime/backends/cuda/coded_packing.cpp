#include "runtime/backends/cuda/coded_packing.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace lockstep::cuda {
namespace {

constexpr int64_t kTile = kTileOutputs;

int64_t parts_of(int64_t whole, int64_t part) { return (whole + part - 1) / part; }

/// Bytes that a group's zero or minimum takes.
int64_t offset_bytes(const WeightFormat& format) {
  if (format.offset == GroupOffset::kMinima) return size_of(format.scale);
  return format.offset == GroupOffset::kZeros ? format.bits / 4 : 0;  // of 8 bits a zero may be 256
}

void store_scale(ScaleType type, float value, std::byte* to) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto store = [to](auto number) { std::memcpy(to, &number, sizeof number); };
  switch (type) {
    case ScaleType::kFloat32: return store(bits);
    case ScaleType::kBFloat16: return store(to_bfloat16(value).bits);
    case ScaleType::kFloat16: return store(to_float16(value).bits);
    case ScaleType::kPowerOfTwo: return store(static_cast<uint8_t>(bits >> 23));
  }
}

void store_offset(const WeightFormat& format, float value, std::byte* to) {
  if (format.offset == GroupOffset::kMinima) return store_scale(format.scale, value, to);
  const auto zero = static_cast<uint16_t>(value);
  std::memcpy(to, &zero, static_cast<size_t>(offset_bytes(format)));
}

CodeForm form_of(const WeightFormat& format) {
  if (format.kind == CodeKind::kInteger) return format.bits == 4 ? kInteger4 : kInteger8;
  return format.kind == CodeKind::kE2M1 ? kE2M1 : kE4M3;
}

}  // namespace

CodeLayout CodedPacking::layout() const {
  const int64_t per_word = 32 / format.bits;
  const int64_t widest = std::min({groups.width, groups.leaf, std::max<int64_t>(groups.columns, 1)});
  const int64_t in_word = std::max<int64_t>(1, per_word / groups.width);
  const int64_t needed = in_word > 1 ? 1 : parts_of(widest, per_word);
  const int64_t load = std::min<int64_t>(needed <= 2 ? needed : 4, 4);
  const int64_t words = parts_of(needed, load) * load;
  const int64_t of_leaf = parts_of(groups.per_leaf(), in_word);
  const int64_t of_last = parts_of(parts_of(groups.columns % groups.leaf, groups.width), in_word);
  const int64_t code_bytes = (groups.columns / groups.leaf * of_leaf + of_last) * words * 4 * kTile;
  const int64_t scale_bytes = groups.count() * size_of(format.scale) * kTile;
  return {.groups = {.columns = static_cast<int32_t>(groups.columns),
                     .leaf = static_cast<int32_t>(groups.leaf),
                     .width = static_cast<int32_t>(groups.width),
                     .count = static_cast<int32_t>(groups.count()),
                     .words = static_cast<int32_t>(parts_of(widest, 4))},
          .tile_bytes = code_bytes + scale_bytes + groups.count() * offset_bytes(format) * kTile,
          .scales = code_bytes,
          .offsets = code_bytes + scale_bytes,
          .form = form_of(format),
          .scale_type = static_cast<int32_t>(format.scale),
          .offset_kind = static_cast<int32_t>(format.offset),
          .words = static_cast<int32_t>(words),
          .load = static_cast<int32_t>(load),
          .groups_of_word = static_cast<int32_t>(in_word),
          .units_of_leaf = static_cast<int32_t>(of_leaf)};
}

int64_t CodedPacking::tile_bytes() const { return layout().tile_bytes; }

void CodedPacking::pack_tile(int64_t rows, const CodedRows& src, std::span<std::byte> dst) const {
  const CodeLayout l = layout();
  std::fill_n(dst.begin(), l.tile_bytes, std::byte{});
  const int64_t per_word = 32 / format.bits, count = groups.count();
  const int64_t scale_size = size_of(format.scale), offset_size = offset_bytes(format);
  for (int64_t group = 0; group < count; ++group) {
    const int64_t in_leaf = group % groups.per_leaf();
    const int64_t unit = group / groups.per_leaf() * l.units_of_leaf + in_leaf / l.groups_of_word;
    const int64_t first = in_leaf % l.groups_of_word * groups.width;  // of the group's codes in its word
    const Range columns = groups.of(group);
    for (int64_t output = 0; output < rows; ++output) {
      for (int64_t column = columns.begin; column < columns.end; ++column) {
        const int64_t place = first + column - columns.begin;
        const int64_t word = place / per_word, in_word = place % per_word;
        const int64_t at = (unit * l.words + word / l.load * l.load) * kTile + output * l.load + word % l.load;
        const auto code = static_cast<unsigned>(src.codes[static_cast<size_t>(output * groups.columns + column)]);
        const auto shifted = static_cast<std::byte>(in_word >= 4 ? code << 4 : code);
        dst[static_cast<size_t>(at * 4 + in_word % 4)] |= shifted;
      }
      const auto beside = static_cast<size_t>(output * count + group);
      std::byte* scale = dst.data() + l.scales + (group * kTile + output) * scale_size;
      store_scale(format.scale, src.scales[beside], scale);
      if (offset_size == 0) continue;
      store_offset(format, src.offsets[beside], dst.data() + l.offsets + (group * kTile + output) * offset_size);
    }
  }
}

CodedRows CodedBuffer::rows(const CodedPacking& packing, int64_t count) {
  codes_.resize(static_cast<size_t>(count * packing.groups.columns));
  scales_.resize(static_cast<size_t>(count * packing.groups.count()));
  offsets_.resize(packing.format.offset == GroupOffset::kNone ? 0 : scales_.size());
  return {codes_, scales_, offsets_};
}

CodedRows rows_from(const CodedPacking& packing, const CodedRows& all, int64_t row) {
  const auto beside = static_cast<size_t>(row * packing.groups.count());
  return {all.codes.subspan(static_cast<size_t>(row * packing.groups.columns)), all.scales.subspan(beside),
          all.offsets.empty() ? all.offsets : all.offsets.subspan(beside)};
}

void quantise_rows(const CodedPacking& packing, DType dtype, int64_t rows, std::span<const std::byte> src,
                   const CodedRows& dst) {
  const ColumnGroups& groups = packing.groups;
  std::vector<float> floats(static_cast<size_t>(groups.columns));
  const size_t row_bytes = floats.size() * size_of(dtype);
  for (int64_t row = 0; row < rows; ++row) {
    convert_elements(src.data() + static_cast<size_t>(row) * row_bytes, dtype,
                     reinterpret_cast<std::byte*>(floats.data()), DType::kFloat32, floats.size());
    const CodedRows to = rows_from(packing, dst, row);
    for (int64_t group = 0; group < groups.count(); ++group) {
      const Range columns = groups.of(group);
      const GroupScale made = quantise_group(packing.format, floats.data() + columns.begin, columns.size(),
                                             to.codes.data() + columns.begin);
      to.scales[static_cast<size_t>(group)] = made.scale;
      if (!to.offsets.empty()) to.offsets[static_cast<size_t>(group)] = made.offset;
    }
  }
}

std::vector<std::byte> pack_quantised(const CodedPacking& packing, DType dtype, std::span<const std::byte> src) {
  std::vector<std::byte> all(static_cast<size_t>(packing.bytes()));
  const auto row_bytes = static_cast<size_t>(packing.groups.columns) * size_of(dtype);
  const auto tile_bytes = static_cast<size_t>(packing.tile_bytes());
  CodedBuffer buffer;
  for (int64_t tile = 0; tile < packing.parts * packing.tiles(); ++tile) {
    const int64_t in_part = tile % packing.tiles() * kTile;
    const int64_t rows = std::min(kTile, packing.outputs - in_part);
    const int64_t first = tile / packing.tiles() * packing.outputs + in_part;
    const CodedRows made = buffer.rows(packing, rows);
    quantise_rows(packing, dtype, rows, src.subspan(static_cast<size_t>(first) * row_bytes), made);
    packing.pack_tile(rows, made, std::span(all).subspan(static_cast<size_t>(tile) * tile_bytes, tile_bytes));
  }
  return all;
}

}  // namespace lockstep::cuda
