#include "runtime/backends/cuda/packing.h"

namespace lockstep::cuda {

int64_t FragmentPacking::index(int64_t output, int64_t column) const {
  const int64_t tile = output / 16 * k_steps() + column / 16;
  const int64_t row = output % 16;
  const int64_t k = column % 16;
  const int64_t lane = row % 8 * 4 + k % 8 / 2;
  const int64_t word = k / 8 * 2 + row / 8;
  return tile * 256 + lane * 8 + word * 2 + k % 2;
}

void FragmentPacking::pack(int64_t first, std::span<const uint16_t> src, std::span<uint16_t> dst) const {
  const int64_t rows = static_cast<int64_t>(src.size()) / columns;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      dst[static_cast<size_t>(index(first + row, column))] = src[static_cast<size_t>(row * columns + column)];
    }
  }
}

}  // namespace lockstep::cuda
