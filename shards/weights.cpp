#include "shards/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "runtime/core/hash.h"

namespace lockstep::shards {
namespace {

// Random values, generated about as fast as weights are read from a file. The loops below are compiled for several
// instruction sets; all give the same bits.

/// A row's values: centre + scale · u, u in [−1, 1) from a 32-bit mix of row and column.
struct RandomRow {
  uint32_t seed = 0;
  float centre = 0.0f;
  float scale = 1.0f;
};

[[gnu::always_inline]] inline float random_value(const RandomRow& row, uint32_t column) {
  uint32_t x = column * 0x9e3779b1u + row.seed;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return row.centre + row.scale * (static_cast<float>(static_cast<int32_t>(x ^ (x >> 16))) * 0x1p-31f);
}

[[gnu::always_inline]] inline void fill_floats(const RandomRow& row, uint32_t column, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = random_value(row, column + static_cast<uint32_t>(i));
}

/// Values are finite, so rounding to nearest even needs no check for NaN.
[[gnu::always_inline]] inline void fill_bfloat16s(const RandomRow& row, uint32_t column, std::span<uint16_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const auto bits = std::bit_cast<uint32_t>(random_value(row, column + static_cast<uint32_t>(i)));
    out[i] = static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
}

struct FillFunctions {
  void (*floats)(const RandomRow&, uint32_t, std::span<float>);
  void (*bfloat16s)(const RandomRow&, uint32_t, std::span<uint16_t>);
};

#if defined(__x86_64__)
#define LOCKSTEP_DETAIL_FILL(isa, flags)                                                                        \
  [[gnu::target(flags)]] void floats_##isa(const RandomRow& row, uint32_t column, std::span<float> out) {       \
    fill_floats(row, column, out);                                                                              \
  }                                                                                                             \
  [[gnu::target(flags)]] void bfloat16s_##isa(const RandomRow& row, uint32_t column, std::span<uint16_t> out) { \
    fill_bfloat16s(row, column, out);                                                                           \
  }
LOCKSTEP_DETAIL_FILL(avx2, "avx2")
LOCKSTEP_DETAIL_FILL(avx512, "avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")
#undef LOCKSTEP_DETAIL_FILL
#endif

FillFunctions fill_functions() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    return {floats_avx512, bfloat16s_avx512};
  }
  if (__builtin_cpu_supports("avx2")) return {floats_avx2, bfloat16s_avx2};
#endif
  return {[](const RandomRow& row, uint32_t column, std::span<float> out) { fill_floats(row, column, out); },
          [](const RandomRow& row, uint32_t column, std::span<uint16_t> out) { fill_bfloat16s(row, column, out); }};
}

/// Writes `columns` of a row as `dtype`; returns the byte after them.
std::byte* write_random(const FillFunctions& fill, const RandomRow& row, Range columns, DType dtype, std::byte* dst) {
  constexpr int64_t kBlock = 2048;  // fits the first-level cache
  alignas(64) std::array<float, kBlock> floats;
  alignas(64) std::array<uint16_t, kBlock> bfloat16s;
  for (int64_t at = columns.begin; at < columns.end; at += kBlock) {
    const auto count = static_cast<size_t>(std::min(kBlock, columns.end - at));
    const auto column = static_cast<uint32_t>(at);
    if (dtype == DType::kBFloat16) {
      fill.bfloat16s(row, column, std::span(bfloat16s).first(count));
      std::memcpy(dst, bfloat16s.data(), count * size_of(dtype));
    } else {
      fill.floats(row, column, std::span(floats).first(count));
      convert_elements(reinterpret_cast<const std::byte*>(floats.data()), DType::kFloat32, dst, dtype, count);
    }
    dst += count * size_of(dtype);
  }
  return dst;
}

}  // namespace

Result<void> RandomWeights::read(const std::string& tensor, const Shape& whole, std::span<const Range> ranges,
                                 DType dtype, std::span<std::byte> dst) const {
  LOCKSTEP_CHECK(whole.rank() == ranges.size() && whole.rank() >= 1 && whole.rank() <= 2, whole.rank());
  const uint64_t seed = Fingerprint().add(tensor).value();
  const bool is_vector = whole.rank() == 1;
  const Range rows = is_vector ? Range{0, 1} : ranges[0];
  const Range columns = ranges.back();
  // Vectors are norm weights and biases: around one. Matrices keep the scale of their input.
  RandomRow random{.centre = is_vector ? 1.0f : 0.0f,
                   .scale = is_vector ? 0.1f : std::sqrt(3.0f / static_cast<float>(whole[1]))};
  const FillFunctions fill = fill_functions();
  std::byte* out = dst.data();
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    random.seed = static_cast<uint32_t>(Fingerprint().add(seed).add(row).value());
    out = write_random(fill, random, columns, dtype, out);
  }
  return ok();
}

namespace {

/// Reads the slices of a graph's weights, and sums what it reads of wanted parts.
class SliceReader final : public device::WeightReader {
 public:
  /// Borrows everything; `sums` may be null.
  SliceReader(const graph::Graph& graph, const std::map<std::string, Shape>& tensors, const WeightSource& source,
              PartSums* sums);

  Result<void> read(const graph::Value& weight, Range rows, std::span<std::byte> dst) const override;
  Result<void> read_codes(const graph::Value& weight, const ColumnGroups& groups, Range rows,
                          CodedRows dst) const override;
  int64_t rows_at_once(const graph::Value& weight) const override;
  int64_t place_of(const graph::Value& weight) const override;
  void expect(const graph::Value& weight, Range rows) const override;

 private:
  const Shape& shape_of(const std::string& tensor) const;
  Result<void> read_elements(const graph::WeightSlice& slice, std::span<const Range> ranges, DType dtype,
                             std::span<std::byte> dst) const;
  Result<void> regroup(const graph::WeightSlice& slice, const WeightFormat& wanted, const ColumnGroups& groups,
                       std::span<const Range> ranges, const CodedRows& dst) const;
  Result<void> quantise_rows(const graph::WeightSlice& slice, const graph::Value& weight, const ColumnGroups& groups,
                             std::span<const Range> ranges, const CodedRows& dst) const;
  /// The number of a slice whose parts are summed.
  std::optional<int32_t> summed(const graph::WeightSlice& slice) const;
  /// Calls `visit(slice, ranges, rows)` for the part of each slice that lies in `rows` of the weight: `ranges` of its
  /// tensor, `rows` of the part.
  template <typename Visit>
  Result<void> for_slices(const graph::Value& weight, Range rows, const Visit& visit) const;

  const std::map<std::string, Shape>& tensors_;
  const WeightSource& source_;
  PartSums* const sums_;
  std::map<const graph::WeightSlice*, int32_t> summed_;
};

SliceReader::SliceReader(const graph::Graph& graph, const std::map<std::string, Shape>& tensors,
                         const WeightSource& source, PartSums* sums)
    : tensors_(tensors), source_(source), sums_(sums) {
  if (sums == nullptr) return;
  int32_t number = 0;  // as in `parts_of`
  for (const graph::ValueId id : graph.values_of(graph::ValueKind::kWeight)) {
    for (const graph::WeightSlice& slice : graph.value(id).slices) {
      if (sums->wants(number)) summed_.emplace(&slice, number);
      ++number;
    }
  }
}

std::optional<int32_t> SliceReader::summed(const graph::WeightSlice& slice) const {
  const auto found = summed_.find(&slice);
  return found == summed_.end() ? std::nullopt : std::optional(found->second);
}

/// Reads a part of a slice as elements.
Result<void> SliceReader::read_elements(const graph::WeightSlice& slice, std::span<const Range> ranges, DType dtype,
                                        std::span<std::byte> dst) const {
  LOCKSTEP_TRY_VOID(source_.read(slice.tensor, shape_of(slice.tensor), ranges, dtype, dst));
  if (const auto number = summed(slice)) sums_->add_elements(*number, dst, dtype, ranges);
  return ok();
}

const Shape& SliceReader::shape_of(const std::string& tensor) const {
  const auto found = tensors_.find(tensor);
  LOCKSTEP_CHECK(found != tensors_.end(), tensor);
  return found->second;
}

template <typename Visit>
Result<void> SliceReader::for_slices(const graph::Value& weight, Range rows, const Visit& visit) const {
  int64_t first = 0;  // row of the weight at which the slice begins
  for (const graph::WeightSlice& slice : weight.slices) {
    const int64_t count = slice.range.empty() ? 1 : slice.range[0].size();
    const Range part{std::max(rows.begin, first), std::min(rows.end, first + count)};
    if (part.begin < part.end) {
      std::vector<Range> ranges = slice.range;
      if (!ranges.empty()) {
        const int64_t offset = ranges[0].begin - first;
        ranges[0] = {part.begin + offset, part.end + offset};
      }
      LOCKSTEP_TRY_VOID(visit(slice, ranges, part));
    }
    first += count;
  }
  return ok();
}

Result<void> SliceReader::read(const graph::Value& weight, Range rows, std::span<std::byte> dst) const {
  LOCKSTEP_CHECK(rows.size() > 0 && dst.size() % static_cast<size_t>(rows.size()) == 0, weight.name, dst.size());
  const size_t row_bytes = dst.size() / static_cast<size_t>(rows.size());
  return for_slices(weight, rows, [&](const auto& slice, const std::vector<Range>& ranges, Range part) -> Result<void> {
    const std::span<std::byte> bytes = dst.subspan(static_cast<size_t>(part.begin - rows.begin) * row_bytes,
                                                   static_cast<size_t>(part.size()) * row_bytes);
    return read_elements(slice, ranges, weight.type.dtype, bytes);
  });
}

Result<void> SliceReader::read_codes(const graph::Value& weight, const ColumnGroups& groups, Range rows,
                                     CodedRows dst) const {
  LOCKSTEP_CHECK(weight.format.has_value(), weight.name);
  const auto part_of = [&](auto span, Range part) {
    const size_t per_row = span.size() / static_cast<size_t>(rows.size());
    return span.subspan(static_cast<size_t>(part.begin - rows.begin) * per_row,
                        static_cast<size_t>(part.size()) * per_row);
  };
  return for_slices(weight, rows, [&](const auto& slice, const std::vector<Range>& ranges, Range part) -> Result<void> {
    const CodedRows own{part_of(dst.codes, part), part_of(dst.scales, part), part_of(dst.offsets, part)};
    return source_.format_of(slice.tensor) ? regroup(slice, *weight.format, groups, ranges, own)
                                           : quantise_rows(slice, weight, groups, ranges, own);
  });
}

/// Reads codes of the source, and repeats the scale of each of its groups for the groups of the graph that it holds.
Result<void> SliceReader::regroup(const graph::WeightSlice& slice, const WeightFormat& wanted,
                                  const ColumnGroups& groups, std::span<const Range> ranges,
                                  const CodedRows& dst) const {
  const std::string& tensor = slice.tensor;
  const WeightFormat stored = *source_.format_of(tensor);
  WeightFormat regrouped = stored;
  regrouped.group = wanted.group;
  LOCKSTEP_CHECK(regrouped == wanted && groups.columns == ranges[1].size(), tensor, to_string(stored),
                 to_string(wanted));
  const Range rows = ranges[0], columns = ranges[1];
  const int64_t first = columns.begin / stored.group;
  const auto per_row = static_cast<size_t>((columns.end + stored.group - 1) / stored.group - first);
  std::vector<float> scales(static_cast<size_t>(rows.size()) * per_row),
      offsets(dst.offsets.empty() ? 0 : scales.size());
  const CodedRows read{dst.codes, std::span(scales), std::span(offsets)};
  LOCKSTEP_TRY_VOID(source_.read_codes(tensor, shape_of(tensor), rows, columns, read));
  if (const auto number = summed(slice)) sums_->add_codes(*number, read, stored, rows, columns);
  const auto count = static_cast<size_t>(groups.count());
  for (size_t group = 0; group < count; ++group) {
    const Range own = groups.of(static_cast<int64_t>(group));
    const int64_t from = (columns.begin + own.begin) / stored.group;
    LOCKSTEP_CHECK((columns.begin + own.end - 1) / stored.group == from, tensor, to_string(own), stored.group);
    for (size_t row = 0; row < static_cast<size_t>(rows.size()); ++row) {
      const size_t source = row * per_row + static_cast<size_t>(from - first);
      dst.scales[row * count + group] = scales[source];
      if (!dst.offsets.empty()) dst.offsets[row * count + group] = offsets[source];
    }
  }
  return ok();
}

/// Quantises elements in the type of the model.
Result<void> SliceReader::quantise_rows(const graph::WeightSlice& slice, const graph::Value& weight,
                                        const ColumnGroups& groups, std::span<const Range> ranges,
                                        const CodedRows& dst) const {
  const auto rows = static_cast<size_t>(ranges[0].size()), width = static_cast<size_t>(groups.columns);
  std::vector<std::byte> elements(rows * width * size_of(weight.type.dtype));
  LOCKSTEP_TRY_VOID(read_elements(slice, ranges, weight.type.dtype, elements));
  std::vector<float> row(width);
  const auto count = static_cast<size_t>(groups.count());
  for (size_t r = 0; r < rows; ++r) {
    convert_elements(elements.data() + r * width * size_of(weight.type.dtype), weight.type.dtype,
                     reinterpret_cast<std::byte*>(row.data()), DType::kFloat32, width);
    for (size_t group = 0; group < count; ++group) {
      const Range own = groups.of(static_cast<int64_t>(group));
      const GroupScale made =
          quantise_group(*weight.format, row.data() + own.begin, own.size(), dst.codes.data() + r * width + own.begin);
      dst.scales[r * count + group] = made.scale;
      if (!dst.offsets.empty()) dst.offsets[r * count + group] = made.offset;
    }
  }
  return ok();
}

int64_t SliceReader::rows_at_once(const graph::Value& weight) const {
  int64_t rows = 1;
  for (const graph::WeightSlice& slice : weight.slices) rows = std::max(rows, source_.rows_at_once(slice.tensor));
  return rows;
}

int64_t SliceReader::place_of(const graph::Value& weight) const {
  return weight.slices.empty() ? 0 : source_.place_of(weight.slices.front().tensor);
}

void SliceReader::expect(const graph::Value& weight, Range rows) const {
  (void)for_slices(weight, rows, [&](const auto& slice, const std::vector<Range>& ranges, Range) -> Result<void> {
    source_.expect(slice.tensor, ranges);
    return ok();
  });
}

}  // namespace

Result<void> load_weights(const graph::Graph& graph, const std::map<std::string, Shape>& tensors,
                          const WeightSource& source, device::Store& store, PartSums* sums) {
  return store.load(graph, SliceReader(graph, tensors, source, sums));
}

}  // namespace lockstep::shards
