#include "runtime/checkpoint/coded_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/checkpoint/column_order.h"

namespace lockstep::checkpoint {

Range RowCodedTensor::bytes_of(Range columns) const {
  if (layout_.format.bits == 8) return columns;
  return {columns.begin / 2, (columns.end + 1) / 2};
}

Result<void> RowCodedTensor::read(const StoredFiles& files, Range rows, Range columns, CodedRows dst) const {
  const int64_t most = std::max<int64_t>(1, kCodedBufferBytes / std::max<int64_t>(1, bytes_of(columns).size()));
  return for_each_run(layout_.outputs, rows, most, [&](Range outputs, int64_t row) -> Result<void> {
    const CodedRows part = rows_of(dst, row - rows.begin, outputs.size(), rows.size());
    LOCKSTEP_TRY_VOID(read_codes(files, outputs, columns, part.codes));
    return read_groups(files, outputs, columns, part.scales, part.offsets);
  });
}

Result<void> RowCodedTensor::read_codes(const StoredFiles& files, Range outputs, Range columns,
                                        std::span<uint8_t> dst) const {
  const Range range = bytes_of(columns);
  std::vector<std::byte> bytes(static_cast<size_t>(outputs.size() * range.size()));
  LOCKSTEP_TRY_VOID(read_view(files, layout_.codes.bytes, outputs, range, DType::kUInt8, bytes));
  const uint8_t flip = layout_.is_signed ? 0x80 : 0;
  uint8_t* code = dst.data();
  for (int64_t row = 0; row < outputs.size(); ++row) {
    const auto* of_row = reinterpret_cast<const uint8_t*>(bytes.data() + row * range.size());
    if (layout_.format.bits == 8) {
      for (int64_t i = 0; i < columns.size(); ++i) *code++ = of_row[i] ^ flip;
      continue;
    }
    for (int64_t column = columns.begin; column < columns.end; ++column) {
      const uint8_t pair = of_row[column / 2 - range.begin];
      *code++ = column % 2 == 0 ? pair & 15 : pair >> 4;
    }
  }
  return ok();
}

/// Zeros of rows and groups of the file, row-major.
Result<void> RowCodedTensor::read_zeros(const StoredFiles& files, Range outputs, Range groups,
                                        std::vector<float>& dst) const {
  const CodedPart& part = *layout_.zeros;
  std::vector<std::byte> bytes;
  dst.clear();
  if (part.size == 1) {
    LOCKSTEP_TRY_VOID(read_part(files, part, outputs, groups, bytes));
    for (const std::byte zero : bytes) dst.push_back(static_cast<float>(static_cast<int8_t>(zero)) + 128.0f);
    return ok();
  }
  const int64_t bits = layout_.format.bits, per_word = 32 / bits;
  const Range words{outputs.begin / per_word, (outputs.end + per_word - 1) / per_word};
  LOCKSTEP_TRY_VOID(read_part(files, part, words, groups, bytes));
  for (int64_t output = outputs.begin; output < outputs.end; ++output) {
    const int64_t row = output / per_word - words.begin;
    for (int64_t group = 0; group < groups.size(); ++group) {
      const uint32_t word = word_at(bytes.data() + 4 * (row * groups.size() + group));
      dst.push_back(static_cast<float>((word >> (output % per_word * bits)) & ((1u << bits) - 1)));
    }
  }
  return ok();
}

Result<void> RowCodedTensor::read_groups(const StoredFiles& files, Range outputs, Range columns,
                                         std::span<float> scales, std::span<float> offsets) const {
  const CodedPart& part = layout_.scales;
  const Range groups = groups_of(layout_.format, layout_.order, part.columns, columns);
  const Range rows{outputs.begin / layout_.rows_of_scale, (outputs.end - 1) / layout_.rows_of_scale + 1};
  std::vector<float> stored, zeros;
  LOCKSTEP_TRY_VOID(read_scales(files, part, rows, groups, stored));
  for (float& scale : stored) {
    scale = scale * layout_.factor / layout_.divisor;
    if (!std::isfinite(scale)) return wrong_part(part, "a product of scales that is not finite", "finite scales");
  }
  if (layout_.zeros) LOCKSTEP_TRY_VOID(read_zeros(files, outputs, groups, zeros));
  const auto count = static_cast<size_t>(groups.size()), width = scales.size() / static_cast<size_t>(outputs.size());
  for (int64_t row = 0; row < outputs.size(); ++row) {
    const auto of_scales = static_cast<size_t>((outputs.begin + row) / layout_.rows_of_scale - rows.begin) * count;
    for (size_t i = 0; i < width; ++i) {
      const auto at = static_cast<size_t>(
          group_at(layout_.order, part.columns, columns, layout_.format, static_cast<int64_t>(i)) - groups.begin);
      scales[static_cast<size_t>(row) * width + i] = stored[of_scales + at];
      if (layout_.zeros) offsets[static_cast<size_t>(row) * width + i] = zeros[static_cast<size_t>(row) * count + at];
    }
  }
  return ok();
}

void RowCodedTensor::expect(const StoredFiles& files, Range rows, Range columns) const {
  (void)for_each_run(layout_.outputs, rows, rows.size(), [&](Range outputs, int64_t) -> Result<void> {
    expect_view(files, layout_.codes.bytes, outputs, bytes_of(columns));
    const Range of_scales{outputs.begin / layout_.rows_of_scale, (outputs.end - 1) / layout_.rows_of_scale + 1};
    expect_view(files, layout_.scales.bytes, of_scales, {0, layout_.scales.bytes.columns});
    return ok();
  });
}

}  // namespace lockstep::checkpoint
