// Groups of columns and runs of rows of a stored matrix in codes. Private to this folder.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "runtime/checkpoint/output_rows.h"
#include "runtime/core/block_tree.h"
#include "runtime/core/result.h"
#include "runtime/core/weight_format.h"

namespace lockstep::checkpoint {

/// The stored groups that `columns` touches. `order`, if any, is the group of each column; `count`: of all groups, 1 if
/// all columns have one.
inline Range groups_of(const WeightFormat& format, std::span<const int32_t> order, int64_t count, Range columns) {
  if (count == 1) return {0, 1};
  if (!order.empty()) return {0, count};
  return {columns.begin / format.group, (columns.end + format.group - 1) / format.group};
}

/// The stored group of group `index` of `columns`, as `CodedTensor::read` numbers them.
inline int64_t group_at(std::span<const int32_t> order, int64_t count, Range columns, const WeightFormat& format,
                        int64_t index) {
  if (count == 1) return 0;
  return order.empty() ? columns.begin / format.group + index : order[static_cast<size_t>(columns.begin + index)];
}

/// The part of `dst` (of `all` rows) that holds `count` rows from `first` on.
inline CodedRows rows_of(const CodedRows& dst, int64_t first, int64_t count, int64_t all) {
  const auto part = [&](auto span) {
    const size_t width = span.size() / static_cast<size_t>(std::max<int64_t>(1, all));
    return span.subspan(static_cast<size_t>(first) * width, static_cast<size_t>(count) * width);
  };
  return {part(dst.codes), part(dst.scales), part(dst.offsets)};
}

/// Calls `visit(outputs, row)` for each run of neighbouring outputs among `rows`, at most `most` of them at once.
template <typename Visit>
Result<void> for_each_run(const OutputRows& stored, Range rows, int64_t most, Visit&& visit) {
  for (int64_t row = rows.begin; row < rows.end;) {
    const int64_t count = stored.run(row, std::min(most, rows.end - row));
    const int64_t first = stored.output_of(row);
    LOCKSTEP_TRY_VOID(visit(Range{first, first + count}, row));
    row += count;
  }
  return ok();
}

}  // namespace lockstep::checkpoint
