#include "runtime/checkpoint/coded_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/checkpoint/column_order.h"

namespace lockstep::checkpoint {
namespace {

constexpr int64_t kWordBytes = 4;
constexpr int64_t kPageBytes = 4096;
constexpr int64_t kRowsOfWordsOfOutputs = 2048;  // so that 1 KiB is read at once
constexpr int64_t kOutputsOfAWord = 8;           // AWQ
constexpr std::array<int, kOutputsOfAWord> kShiftOfOutput = {0, 16, 4, 20, 8, 24, 12, 28};  // AWQ

/// Cuts `range` into parts of at most `most`, which begin at multiples of `unit`.
template <typename Visit>
Result<void> for_parts(Range range, int64_t most, int64_t unit, Visit&& visit) {
  const int64_t step = std::max<int64_t>(1, most / unit) * unit;
  for (int64_t begin = range.begin; begin < range.end;) {
    const int64_t end = std::min(range.end, (begin / unit) * unit + step);
    LOCKSTEP_TRY_VOID(visit(Range{begin, end}));
    begin = end;
  }
  return ok();
}

}  // namespace

int64_t ColumnCodedTensor::rows_at_once() const {
  return layout_.words == CodedColumnsLayout::Words::kOfInputs ? kPageBytes / kWordBytes : kRowsOfWordsOfOutputs;
}

ColumnCodedTensor::Words ColumnCodedTensor::words_of(Range outputs, Range columns) const {
  if (layout_.words == CodedColumnsLayout::Words::kOfOutputs) {
    return {columns, {outputs.begin / kOutputsOfAWord, (outputs.end + kOutputsOfAWord - 1) / kOutputsOfAWord}};
  }
  const int64_t inputs = 32 / layout_.format.bits;
  return {{columns.begin / inputs, (columns.end + inputs - 1) / inputs}, outputs};
}

Result<void> ColumnCodedTensor::read(const StoredFiles& files, Range rows, Range columns, CodedRows dst) const {
  LOCKSTEP_TRY_VOID(check_positions(files, columns));
  return for_each_run(layout_.outputs, rows, rows_at_once(), [&](Range outputs, int64_t row) -> Result<void> {
    const CodedRows part = rows_of(dst, row - rows.begin, outputs.size(), rows.size());
    LOCKSTEP_TRY_VOID(read_codes(files, outputs, columns, part.codes));
    return read_groups(files, outputs, columns, part.scales, part.offsets);
  });
}

Result<void> ColumnCodedTensor::check_positions(const StoredFiles& files, Range columns) const {
  if (!layout_.positions) return ok();
  std::vector<std::byte> numbers;
  LOCKSTEP_TRY_VOID(read_part(files, *layout_.positions, columns, {0, 1}, numbers));
  for (int64_t column = columns.begin; column < columns.end; ++column) {
    const auto group = static_cast<int32_t>(word_at(numbers.data() + kWordBytes * (column - columns.begin)));
    if (group == column / layout_.format.group) continue;
    return wrong_part(
        *layout_.positions, fmt::format("group {} for column {}", group, column),
        fmt::format("{}, because the config says that columns are in order (desc_act)", column / layout_.format.group));
  }
  return ok();
}

/// Reads some rows of words at once.
Result<void> ColumnCodedTensor::read_codes(const StoredFiles& files, Range outputs, Range columns,
                                           std::span<uint8_t> dst) const {
  const bool of_inputs = layout_.words == CodedColumnsLayout::Words::kOfInputs;
  const int64_t per_row = of_inputs ? 32 / layout_.format.bits : 1;  // columns of a row of words
  const int64_t word_columns = words_of(outputs, columns).columns.size();
  const int64_t rows = std::max<int64_t>(1, kCodedBufferBytes / (kWordBytes * word_columns));
  std::vector<std::byte> words;
  return for_parts(columns, rows * per_row, per_row, [&](Range part) -> Result<void> {
    const Words where = words_of(outputs, part);
    LOCKSTEP_TRY_VOID(read_part(files, layout_.codes, where.rows, where.columns, words));
    const Unpacked unpacked{part, columns.begin, columns.size(), dst};
    if (of_inputs) {
      unpack_inputs(words, where, unpacked);
    } else {
      unpack_outputs(words, where, outputs, unpacked);
    }
    return ok();
  });
}

void ColumnCodedTensor::unpack_inputs(const std::vector<std::byte>& words, Words where, const Unpacked& dst) const {
  const int64_t bits = layout_.format.bits, inputs = 32 / bits, outputs = where.columns.size();
  const uint32_t mask = (1u << bits) - 1;
  for (int64_t row = where.rows.begin; row < where.rows.end; ++row) {
    const Range columns{std::max(row * inputs, dst.columns.begin), std::min((row + 1) * inputs, dst.columns.end)};
    const std::byte* const of_row = words.data() + kWordBytes * (row - where.rows.begin) * outputs;
    for (int64_t output = 0; output < outputs; ++output) {
      const uint32_t word = word_at(of_row + kWordBytes * output);
      for (int64_t column = columns.begin; column < columns.end; ++column) {
        dst.at(output, column) = static_cast<uint8_t>((word >> (column % inputs * bits)) & mask);
      }
    }
  }
}

void ColumnCodedTensor::unpack_outputs(const std::vector<std::byte>& words, Words where, Range outputs,
                                       const Unpacked& dst) const {
  for (int64_t column = where.rows.begin; column < where.rows.end; ++column) {
    const std::byte* const of_row = words.data() + kWordBytes * (column - where.rows.begin) * where.columns.size();
    for (int64_t output = outputs.begin; output < outputs.end; ++output) {
      const uint32_t word = word_at(of_row + kWordBytes * (output / kOutputsOfAWord - where.columns.begin));
      const int shift = kShiftOfOutput[static_cast<size_t>(output % kOutputsOfAWord)];
      dst.at(output - outputs.begin, column) = static_cast<uint8_t>((word >> shift) & 15);
    }
  }
}

int64_t ColumnCodedTensor::zero_at(const std::byte* words, int64_t first, int64_t output) const {
  const int64_t bits = layout_.format.bits, per_word = 32 / bits;
  const int64_t place = output % per_word;
  const int64_t shift = layout_.words == CodedColumnsLayout::Words::kOfOutputs
                            ? kShiftOfOutput[static_cast<size_t>(place)]
                            : place * bits;
  const uint32_t word = word_at(words + kWordBytes * (output / per_word - first));
  return static_cast<int64_t>((word >> shift) & ((1u << bits) - 1)) + layout_.added_to_zeros;
}

/// Checks the zeros of a symmetric format, which has none.
Result<void> ColumnCodedTensor::read_groups(const StoredFiles& files, Range outputs, Range columns,
                                            std::span<float> scales, std::span<float> offsets) const {
  const int64_t stored_groups = layout_.scales.rows, per_word = 32 / layout_.format.bits;
  const Range groups = groups_of(layout_.format, layout_.order, stored_groups, columns);
  const Range words{outputs.begin / per_word, (outputs.end + per_word - 1) / per_word};
  std::vector<float> stored;
  std::vector<std::byte> zeros;
  LOCKSTEP_TRY_VOID(read_scales(files, layout_.scales, groups, outputs, stored));
  LOCKSTEP_TRY_VOID(read_part(files, layout_.zeros, groups, words, zeros));
  const size_t width = scales.size() / static_cast<size_t>(outputs.size());
  const int64_t middle = int64_t{1} << (layout_.format.bits - 1);
  for (int64_t output = outputs.begin; output < outputs.end; ++output) {
    const auto row = static_cast<size_t>(output - outputs.begin);
    for (size_t i = 0; i < width; ++i) {
      const int64_t group = group_at(layout_.order, stored_groups, columns, layout_.format, static_cast<int64_t>(i));
      const int64_t at = group - groups.begin;
      const int64_t zero = zero_at(zeros.data() + kWordBytes * at * words.size(), words.begin, output);
      scales[row * width + i] = stored[static_cast<size_t>(at * outputs.size()) + row];
      if (!offsets.empty()) {
        offsets[row * width + i] = static_cast<float>(zero);
      } else if (zero != middle) {
        return wrong_part(layout_.zeros, fmt::format("the zero {} of group {} and output {}", zero, group, output),
                          fmt::format("{} everywhere, because the config says that weights are symmetric", middle));
      }
    }
  }
  return ok();
}

void ColumnCodedTensor::expect(const StoredFiles& files, Range rows, Range columns) const {
  (void)for_each_run(layout_.outputs, rows, rows.size(), [&](Range outputs, int64_t) -> Result<void> {
    const Words words = words_of(outputs, columns);
    expect_view(files, layout_.codes.bytes, words.rows,
                {words.columns.begin * kWordBytes, words.columns.end * kWordBytes});
    return ok();
  });
}

}  // namespace lockstep::checkpoint
