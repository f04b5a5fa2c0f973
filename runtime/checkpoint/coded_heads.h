// A matrix in codes with each head's part transposed: the keys of latent attention. Private to this folder.
#pragma once

#include <memory>
#include <utility>

#include "runtime/checkpoint/coded_tensor.h"

namespace lockstep::checkpoint {

/// Row h · columns + j of it is column j of the rows of head h of `stored`. Groups have one column.
class TransposedHeads final : public CodedTensor {
 public:
  /// `stored` has `columns` columns, and `rows_of_head` rows for each head.
  TransposedHeads(std::shared_ptr<const CodedTensor> stored, int64_t rows_of_head, int64_t columns);

  const WeightFormat& format() const override { return format_; }
  Result<void> read(const StoredFiles& files, Range rows, Range columns, CodedRows dst) const override;
  int64_t rows_at_once() const override { return columns_; }
  void expect(const StoredFiles& files, Range rows, Range columns) const override;

 private:
  Result<void> read_of_head(const StoredFiles& files, int64_t head, Range rows, Range columns,
                            const CodedRows& dst) const;

  const std::shared_ptr<const CodedTensor> stored_;  // also that of the other part of the heads
  const int64_t rows_of_head_, columns_;
  WeightFormat format_;
};

}  // namespace lockstep::checkpoint
