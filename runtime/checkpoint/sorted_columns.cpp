#include "runtime/checkpoint/sorted_columns.h"

#include <algorithm>
#include <numeric>

namespace lockstep::checkpoint {

std::vector<int32_t> order_by_group(std::span<const int32_t> group_of, int64_t width) {
  std::vector<int32_t> order(group_of.size());
  std::iota(order.begin(), order.end(), 0);
  const auto group = [&](int32_t column) { return group_of[static_cast<size_t>(column)]; };
  std::ranges::stable_sort(order, {}, group);
  for (size_t i = 0; i < order.size(); ++i) {
    if (group(order[i]) != static_cast<int64_t>(i) / width) return {};
  }
  return order;
}

Result<void> SortedColumns::read(const StoredFiles& files, Range rows, Range columns, CodedRows dst) const {
  const size_t width = order_.size(), count = static_cast<size_t>(columns.size());
  const int64_t first = columns.begin / format_.group, last = (columns.end + format_.group - 1) / format_.group;
  const auto height = static_cast<size_t>(rows.size()), groups = static_cast<size_t>(last - first);
  std::vector<uint8_t> codes(height * width);
  std::vector<float> scales(height * width), offsets(dst.offsets.empty() ? 0 : scales.size());
  LOCKSTEP_TRY_VOID(stored_->read(files, rows, {0, static_cast<int64_t>(width)}, {codes, scales, offsets}));
  for (size_t row = 0; row < height; ++row) {
    for (size_t i = 0; i < count; ++i) {
      const auto column = static_cast<size_t>(order_[static_cast<size_t>(columns.begin) + i]);
      dst.codes[row * count + i] = codes[row * width + column];
    }
    for (size_t group = 0; group < groups; ++group) {
      const int64_t from = (first + static_cast<int64_t>(group)) * format_.group;
      const auto column = static_cast<size_t>(order_[static_cast<size_t>(from)]);
      dst.scales[row * groups + group] = scales[row * width + column];
      if (!offsets.empty()) dst.offsets[row * groups + group] = offsets[row * width + column];
    }
  }
  return ok();
}

void SortedColumns::expect(const StoredFiles& files, Range rows, Range) const {
  stored_->expect(files, rows, {0, static_cast<int64_t>(order_.size())});
}

}  // namespace lockstep::checkpoint
