// Weights in the microscaling format mxfp4 (OCP Microscaling Formats 1.0; gpt-oss). A row consists of blocks of 32
// elements. An element is a 4-bit float (E2M1); a block has one 8-bit exponent (E8M0):
//
//   element = value(nibble) · 2^(scale − 127)      two elements per byte, the low nibble first
//
// Private to this folder.
#pragma once

#include "runtime/checkpoint/coded_tensor.h"
#include "runtime/checkpoint/tensor_view.h"

namespace lockstep::checkpoint {

constexpr int64_t kMxfp4Block = 32;       // elements
constexpr int64_t kMxfp4BlockBytes = 16;  // without the scale

/// A matrix [rows, columns]: nibbles u8 [rows, columns / 2] and exponents u8 [rows, columns / 32].
class Mxfp4Tensor final : public CodedTensor {
 public:
  Mxfp4Tensor(TensorView blocks, TensorView scales) : blocks_(std::move(blocks)), scales_(std::move(scales)) {}

  const WeightFormat& format() const override { return kFormat; }
  Result<void> read(const StoredFiles& files, Range rows, Range columns, CodedRows dst) const override;
  void expect(const StoredFiles& files, Range rows, Range columns) const override;

 private:
  static constexpr WeightFormat kFormat{
      .kind = CodeKind::kE2M1, .bits = 4, .group = kMxfp4Block, .scale = ScaleType::kPowerOfTwo};
  TensorView blocks_, scales_;
};

}  // namespace lockstep::checkpoint
