// Matrices in the block formats of GGUF files (ggml-common.h), without a change of values:
//
//   Q4_0 q4g32.f16    Q4_1 q4g32m.f16   Q4_K q4g32m.f32    scale d · 6-bit scale, minimum −dmin · 6-bit minimum
//   Q5_0 q8g32.f16    Q5_1 q8g32m.f16   Q5_K q8g32m.f32    codes of 5 bits in 8
//   Q8_0 q8g32.f16    Q6_K q8g16.f32    MXFP4 e2m1g32.e8m0
//
// Private to this folder.
#pragma once

#include <string_view>

#include "runtime/checkpoint/coded_tensor.h"
#include "runtime/checkpoint/tensor_view.h"

namespace lockstep::checkpoint {

/// A block format: its layout in bytes, and what it is in codes.
struct GgufFormat {
  std::string_view name;  // "Q4_K"
  int64_t block;          // columns
  int64_t bytes;          // of a block
  WeightFormat format;
  /// Decodes one block: `block` codes, and a scale and perhaps an offset for each of its groups.
  void (*decode)(const uint8_t* src, uint8_t* codes, float* scales, float* offsets);
};

/// The format of that name; nullptr if it cannot be read.
const GgufFormat* find_gguf_format(std::string_view name);

/// A matrix in blocks along its rows.
class GgufTensor final : public CodedTensor {
 public:
  /// `bytes` is the matrix of its bytes, u8 [rows, columns / block · bytes of a block].
  GgufTensor(const GgufFormat& blocks, TensorView bytes) : blocks_(blocks), bytes_(std::move(bytes)) {}

  const WeightFormat& format() const override { return blocks_.format; }
  Result<void> read(const StoredFiles& files, Range rows, Range columns, CodedRows dst) const override;
  void expect(const StoredFiles& files, Range rows, Range columns) const override;

 private:
  const GgufFormat& blocks_;
  TensorView bytes_;
};

}  // namespace lockstep::checkpoint
