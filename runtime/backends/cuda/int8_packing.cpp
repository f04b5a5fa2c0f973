#include "runtime/backends/cuda/int8_packing.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace lockstep::cuda {

int64_t Int8Packing::words() const {
  const int64_t widest = std::min({groups.width, groups.leaf, std::max<int64_t>(groups.columns, 1)});
  return (widest + 3) / 4;
}

void Int8Packing::pack(DType dtype, std::span<const std::byte> src, std::span<std::byte> dst) const {
  const auto columns = static_cast<size_t>(groups.columns);
  const size_t row_bytes = columns * size_of(dtype);
  std::vector<float> row(columns);
  std::vector<int8_t> integers(static_cast<size_t>(words() * 4));
  for (int64_t output = 0; output < outputs; ++output) {
    convert_elements(src.data() + static_cast<size_t>(output) * row_bytes, dtype,
                     reinterpret_cast<std::byte*>(row.data()), DType::kFloat32, columns);
    for (int64_t group = 0; group < groups.count(); ++group) {
      const Range range = groups.of(group);
      std::ranges::fill(integers, int8_t{0});
      const float scale = to_int8(row.data() + range.begin, range.size(), integers.data());
      const int64_t first = output / 16 * groups.count() + group;
      for (int64_t word = 0; word < words(); ++word) {
        std::memcpy(dst.data() + ((first * words() + word) * 16 + output % 16) * 4, integers.data() + word * 4, 4);
      }
      std::memcpy(dst.data() + scale_offset() + (first * 16 + output % 16) * 4, &scale, sizeof scale);
    }
  }
}

}  // namespace lockstep::cuda
