// A matrix in codes whose columns are in groups by a list (act-order), with its columns sorted by group. Private to
// this folder.
#pragma once

#include <memory>
#include <vector>

#include "runtime/checkpoint/coded_tensor.h"

namespace lockstep::checkpoint {

/// The numbers of the columns, sorted by group, and in a group by number. `group_of` is the group of each column. Empty
/// unless each group except the last has `width` columns.
std::vector<int32_t> order_by_group(std::span<const int32_t> group_of, int64_t width);

class SortedColumns final : public CodedTensor {
 public:
  /// `stored` has groups of one column; those of `order` have `format`.
  SortedColumns(std::shared_ptr<const CodedTensor> stored, WeightFormat format, std::vector<int32_t> order)
      : stored_(std::move(stored)), format_(format), order_(std::move(order)) {}

  const WeightFormat& format() const override { return format_; }
  std::span<const int32_t> order() const override { return order_; }
  Result<void> read(const StoredFiles& files, Range rows, Range columns, CodedRows dst) const override;
  int64_t rows_at_once() const override { return stored_->rows_at_once(); }
  void expect(const StoredFiles& files, Range rows, Range columns) const override;

 private:
  const std::shared_ptr<const CodedTensor> stored_;
  const WeightFormat format_;
  const std::vector<int32_t> order_;
};

}  // namespace lockstep::checkpoint
