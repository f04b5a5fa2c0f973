#include "runtime/checkpoint/mxfp4.h"

#include <cmath>
#include <vector>

namespace lockstep::checkpoint {
namespace {

/// The blocks that `columns` touches.
Range blocks_of(Range columns) { return {columns.begin / kMxfp4Block, (columns.end + kMxfp4Block - 1) / kMxfp4Block}; }

Range bytes_of(Range blocks) { return {blocks.begin * kMxfp4BlockBytes, blocks.end * kMxfp4BlockBytes}; }

}  // namespace

Result<void> Mxfp4Tensor::read(const StoredFiles& files, Range rows, Range columns, CodedRows dst) const {
  const Range blocks = blocks_of(columns), bytes = bytes_of(blocks);
  std::vector<std::byte> nibbles(static_cast<size_t>(rows.size() * bytes.size()));
  std::vector<std::byte> exponents(static_cast<size_t>(rows.size() * blocks.size()));
  LOCKSTEP_TRY_VOID(read_view(files, blocks_, rows, bytes, DType::kUInt8, nibbles));
  LOCKSTEP_TRY_VOID(read_view(files, scales_, rows, blocks, DType::kUInt8, exponents));
  for (size_t i = 0; i < exponents.size(); ++i) dst.scales[i] = std::ldexp(1.0f, static_cast<int>(exponents[i]) - 127);
  uint8_t* code = dst.codes.data();
  for (int64_t row = 0; row < rows.size(); ++row) {
    const std::byte* const of_row = nibbles.data() + row * bytes.size();
    for (int64_t column = columns.begin; column < columns.end; ++column) {
      const auto pair = static_cast<uint8_t>(of_row[column / 2 - bytes.begin]);
      *code++ = column % 2 == 0 ? pair & 15 : pair >> 4;
    }
  }
  return ok();
}

void Mxfp4Tensor::expect(const StoredFiles& files, Range rows, Range /*columns*/) const {
  // Both parts of the complete rows: they are dense.
  expect_view(files, blocks_, rows, {0, blocks_.columns});
  expect_view(files, scales_, rows, {0, scales_.columns});
}

}  // namespace lockstep::checkpoint
