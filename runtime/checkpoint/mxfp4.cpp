#include "runtime/checkpoint/mxfp4.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace lockstep::checkpoint {
namespace {

constexpr int64_t kBufferBytes = int64_t{1} << 20;
constexpr std::array<float, 16> kValues = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                           -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

void decode_block(const std::byte* nibbles, std::byte scale, float* dst) {
  const float factor = std::ldexp(1.0f, static_cast<int>(scale) - 127);
  for (int64_t i = 0; i < kMxfp4BlockBytes; ++i) {
    const auto pair = static_cast<uint8_t>(nibbles[i]);
    dst[2 * i] = kValues[pair & 15] * factor;
    dst[2 * i + 1] = kValues[pair >> 4] * factor;
  }
}

}  // namespace

Result<void> read_mxfp4(const StoredFiles& files, const TensorView& blocks, const TensorView& scales, Range rows,
                        Range columns, DType dtype, std::span<std::byte> dst) {
  const Range across{columns.begin / kMxfp4Block, (columns.end + kMxfp4Block - 1) / kMxfp4Block};  // blocks
  const auto width = static_cast<size_t>(across.size());
  const int64_t most = std::max<int64_t>(1, kBufferBytes / (kMxfp4BlockBytes * std::max<int64_t>(1, across.size())));
  const auto row_bytes = static_cast<size_t>(columns.size()) * size_of(dtype);
  LOCKSTEP_CHECK(dst.size() == static_cast<size_t>(rows.size()) * row_bytes, dst.size(), to_string(rows), row_bytes);
  std::vector<std::byte> nibbles, exponents;
  std::vector<float> row(width * kMxfp4Block);
  for (int64_t begin = rows.begin; begin < rows.end; begin += most) {
    const Range part{begin, std::min(begin + most, rows.end)};
    nibbles.resize(static_cast<size_t>(part.size()) * width * kMxfp4BlockBytes);
    exponents.resize(static_cast<size_t>(part.size()) * width);
    const Range bytes{across.begin * kMxfp4BlockBytes, across.end * kMxfp4BlockBytes};
    LOCKSTEP_TRY_VOID(read_view(files, blocks, part, bytes, DType::kUInt8, nibbles));
    LOCKSTEP_TRY_VOID(read_view(files, scales, part, across, DType::kUInt8, exponents));
    for (size_t block = 0; block < exponents.size(); ++block) {
      decode_block(&nibbles[block * kMxfp4BlockBytes], exponents[block], &row[block % width * kMxfp4Block]);
      if ((block + 1) % width != 0) continue;
      const float* first = row.data() + (columns.begin - across.begin * kMxfp4Block);
      convert_elements(reinterpret_cast<const std::byte*>(first), DType::kFloat32, dst.data(), dtype,
                       static_cast<size_t>(columns.size()));
      dst = dst.subspan(row_bytes);
    }
  }
  return ok();
}

}  // namespace lockstep::checkpoint
