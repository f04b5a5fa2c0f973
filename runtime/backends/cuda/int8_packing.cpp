#include "runtime/backends/cuda/int8_packing.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace lockstep::cuda {

int64_t Int8Packing::words() const {
  const int64_t widest = std::min({groups.width, groups.leaf, std::max<int64_t>(groups.columns, 1)});
  return (widest + 3) / 4;
}

void Int8Packing::pack_tile(DType dtype, int64_t tile, std::span<const std::byte> src, std::span<std::byte> integers,
                            std::span<std::byte> scales) const {
  std::memset(integers.data(), 0, static_cast<size_t>(integer_bytes_of_tile()));
  std::memset(scales.data(), 0, static_cast<size_t>(scale_bytes_of_tile()));
  const auto columns = static_cast<size_t>(groups.columns);
  const size_t row_bytes = columns * size_of(dtype);
  std::vector<float> row(columns);
  std::vector<int8_t> own(static_cast<size_t>(words() * 4));
  const int64_t rows = std::min<int64_t>(16, outputs - tile * 16);
  for (int64_t output = 0; output < rows; ++output) {
    convert_elements(src.data() + static_cast<size_t>(output) * row_bytes, dtype,
                     reinterpret_cast<std::byte*>(row.data()), DType::kFloat32, columns);
    for (int64_t group = 0; group < groups.count(); ++group) {
      const Range range = groups.of(group);
      std::ranges::fill(own, int8_t{0});
      const float scale = to_int8(row.data() + range.begin, range.size(), own.data());
      for (int64_t word = 0; word < words(); ++word) {
        std::memcpy(integers.data() + ((group * words() + word) * 16 + output) * 4, own.data() + word * 4, 4);
      }
      std::memcpy(scales.data() + (group * 16 + output) * 4, &scale, sizeof scale);
    }
  }
}

void Int8Packing::pack(DType dtype, std::span<const std::byte> src, std::span<std::byte> dst) const {
  const auto row_bytes = static_cast<size_t>(groups.columns) * size_of(dtype);
  const std::span<std::byte> scales = dst.subspan(static_cast<size_t>(scale_offset()));
  for (int64_t tile = 0; tile < tiles(); ++tile) {
    pack_tile(dtype, tile, src.subspan(static_cast<size_t>(tile) * 16 * row_bytes),
              dst.subspan(static_cast<size_t>(tile * integer_bytes_of_tile())),
              scales.subspan(static_cast<size_t>(tile * scale_bytes_of_tile())));
  }
}

}  // namespace lockstep::cuda
