#include "runtime/backends/cuda/packing.h"

namespace lockstep::cuda {
namespace {

template <typename Element>
void pack_elements(const FragmentPacking& packing, const std::byte* src, std::byte* dst) {
  const auto* from = reinterpret_cast<const Element*>(src);
  auto* to = reinterpret_cast<Element*>(dst);
  for (int64_t output = 0; output < packing.outputs; ++output) {
    for (int64_t column = 0; column < packing.columns; ++column) to[packing.index(output, column)] = *from++;
  }
}

}  // namespace

int64_t FragmentPacking::index(int64_t output, int64_t column) const {
  const int64_t step = column / leaf * steps_of_leaf() + column % leaf / 16;
  const int64_t tile = output / 16 * k_steps() + step;
  const int64_t row = output % 16;
  const int64_t k = column % leaf % 16;
  if (size_of(dtype) == 4) return tile * 256 + k * 16 + row;
  const int64_t lane = row % 8 * 4 + k % 8 / 2;
  const int64_t word = k / 8 * 2 + row / 8;
  return tile * 256 + lane * 8 + word * 2 + k % 2;
}

void FragmentPacking::pack(std::span<const std::byte> src, std::span<std::byte> dst) const {
  if (size_of(dtype) == 4) return pack_elements<uint32_t>(*this, src.data(), dst.data());
  pack_elements<uint16_t>(*this, src.data(), dst.data());
}

}  // namespace lockstep::cuda
