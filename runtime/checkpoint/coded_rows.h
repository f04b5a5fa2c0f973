// Matrices in codes whose rows are contiguous in the file: compressed-tensors, FP8, NVFP4, MXFP4. Private to this
// folder.
//
//   codes  [N, K]            4 bits: two in a byte, the low one first; 8 bits: a byte each
//   scales [N / r, groups]   r rows and all columns of a group share one; or [1, 1] for all
//   zeros  [N, groups]       bytes from −128, or codes packed along N as in words of 32 bits
#pragma once

#include <optional>
#include <vector>

#include "runtime/checkpoint/coded_parts.h"
#include "runtime/checkpoint/coded_tensor.h"
#include "runtime/checkpoint/output_rows.h"

namespace lockstep::checkpoint {

/// The stored form of such a matrix.
struct CodedRowsLayout {
  WeightFormat format;
  OutputRows outputs;  // those that are the rows
  CodedPart codes;
  bool is_signed = false;  // codes of 8 bits are integers from −128
  CodedPart scales;
  int64_t rows_of_scale = 1;
  float factor = 1.0f;   // on every scale,
  float divisor = 1.0f;  // and the number that it is divided by
  std::optional<CodedPart> zeros = std::nullopt;
  std::vector<int32_t> order = {};  // the group of each column, if not by position; the format's group is then 1
};

class RowCodedTensor final : public CodedTensor {
 public:
  explicit RowCodedTensor(CodedRowsLayout layout) : layout_(std::move(layout)) {}

  const WeightFormat& format() const override { return layout_.format; }
  Result<void> read(const StoredFiles& files, Range rows, Range columns, CodedRows dst) const override;
  void expect(const StoredFiles& files, Range rows, Range columns) const override;

 private:
  Result<void> read_codes(const StoredFiles& files, Range outputs, Range columns, std::span<uint8_t> dst) const;
  Result<void> read_groups(const StoredFiles& files, Range outputs, Range columns, std::span<float> scales,
                           std::span<float> offsets) const;
  Result<void> read_zeros(const StoredFiles& files, Range outputs, Range groups, std::vector<float>& dst) const;
  Range bytes_of(Range columns) const;

  const CodedRowsLayout layout_;
};

}  // namespace lockstep::checkpoint
