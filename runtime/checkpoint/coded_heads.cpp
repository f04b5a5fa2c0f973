#include "runtime/checkpoint/coded_heads.h"

#include <algorithm>
#include <vector>

#include "runtime/checkpoint/column_order.h"

namespace lockstep::checkpoint {

TransposedHeads::TransposedHeads(std::shared_ptr<const CodedTensor> stored, int64_t rows_of_head, int64_t columns)
    : stored_(std::move(stored)), rows_of_head_(rows_of_head), columns_(columns), format_(stored_->format()) {
  format_.group = 1;
}

Result<void> TransposedHeads::read(const StoredFiles& files, Range rows, Range columns, CodedRows dst) const {
  for (int64_t row = rows.begin; row < rows.end;) {
    const int64_t head = row / columns_, end = std::min(rows.end, (head + 1) * columns_);
    LOCKSTEP_TRY_VOID(read_of_head(files, head, {row - head * columns_, end - head * columns_}, columns,
                                   rows_of(dst, row - rows.begin, end - row, rows.size())));
    row = end;
  }
  return ok();
}

/// Reads rows of a head: columns of the stored matrix.
Result<void> TransposedHeads::read_of_head(const StoredFiles& files, int64_t head, Range rows, Range columns,
                                           const CodedRows& dst) const {
  const int64_t group = stored_->format().group, first = rows.begin / group;
  const int64_t groups = (rows.end + group - 1) / group - first;
  const auto height = static_cast<size_t>(rows.size()), width = static_cast<size_t>(columns.size());
  std::vector<uint8_t> codes(height * width);
  std::vector<float> scales(width * static_cast<size_t>(groups)), offsets(dst.offsets.empty() ? 0 : scales.size());
  const Range stored{head * rows_of_head_ + columns.begin, head * rows_of_head_ + columns.end};
  LOCKSTEP_TRY_VOID(stored_->read(files, stored, rows, {codes, scales, offsets}));
  for (size_t row = 0; row < height; ++row) {
    const auto of_row = static_cast<size_t>((rows.begin + static_cast<int64_t>(row)) / group - first);
    for (size_t column = 0; column < width; ++column) {
      const size_t to = row * width + column, from = column * static_cast<size_t>(groups) + of_row;
      dst.codes[to] = codes[column * height + row];
      dst.scales[to] = scales[from];
      if (!offsets.empty()) dst.offsets[to] = offsets[from];
    }
  }
  return ok();
}

void TransposedHeads::expect(const StoredFiles& files, Range rows, Range columns) const {
  const int64_t last = (std::max(rows.begin, rows.end - 1)) / columns_;
  for (int64_t head = rows.begin / columns_; head <= last; ++head) {
    const Range part{std::max(rows.begin, head * columns_) - head * columns_,
                     std::min(rows.end, (head + 1) * columns_) - head * columns_};
    stored_->expect(files, {head * rows_of_head_ + columns.begin, head * rows_of_head_ + columns.end}, part);
  }
}

}  // namespace lockstep::checkpoint
