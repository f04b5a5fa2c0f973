#include "runtime/backends/cuda/packing.h"

#include <algorithm>
#include <array>

namespace lockstep::cuda {
namespace {

constexpr int64_t kTile = 16;       // outputs
constexpr int64_t kStep = 16;       // columns
constexpr int64_t kElements = 256;  // of a step of a tile

/// The places of a step's elements, by row and column.
using Places = std::array<std::array<uint8_t, kStep>, kTile>;

constexpr Places places_of(size_t element_size) {
  Places places{};
  for (int64_t row = 0; row < kTile; ++row) {
    for (int64_t k = 0; k < kStep; ++k) {
      const int64_t lane = row % 8 * 4 + k % 8 / 2;
      const int64_t word = k / 8 * 2 + row / 8;
      const int64_t place = element_size == 4 ? k * kTile + row : lane * 8 + word * 2 + k % 2;
      places[static_cast<size_t>(row)][static_cast<size_t>(k)] = static_cast<uint8_t>(place);
    }
  }
  return places;
}
constexpr Places kPlacesOf16Bits = places_of(2), kPlacesOf32Bits = places_of(4);

template <typename Element>
void pack_elements(const FragmentPacking& packing, int64_t rows, const std::byte* src, std::byte* dst) {
  const Places& places = sizeof(Element) == 4 ? kPlacesOf32Bits : kPlacesOf16Bits;
  const auto* from = reinterpret_cast<const Element*>(src);
  auto* to = reinterpret_cast<Element*>(dst);
  for (int64_t leaf = 0; leaf < packing.columns; leaf += packing.leaf) {
    const int64_t leaf_end = std::min(leaf + packing.leaf, packing.columns);
    for (int64_t first = leaf; first < leaf_end; first += kStep, to += kElements) {
      const int64_t columns = std::min(kStep, leaf_end - first);
      for (int64_t row = 0; row < rows; ++row) {
        const Element* own = from + row * packing.columns + first;
        for (int64_t k = 0; k < columns; ++k) to[places[static_cast<size_t>(row)][static_cast<size_t>(k)]] = own[k];
      }
    }
  }
}

}  // namespace

int64_t FragmentPacking::index(int64_t output, int64_t column) const {
  const int64_t step = column / leaf * steps_of_leaf() + column % leaf / kStep;
  const Places& places = size_of(dtype) == 4 ? kPlacesOf32Bits : kPlacesOf16Bits;
  return (output / kTile * k_steps() + step) * kElements +
         places[static_cast<size_t>(output % kTile)][static_cast<size_t>(column % leaf % kStep)];
}

void FragmentPacking::pack_tile(int64_t tile, std::span<const std::byte> src, std::span<std::byte> dst) const {
  const int64_t rows = std::min(kTile, outputs - tile * kTile);
  std::fill_n(dst.begin(), tile_bytes(), std::byte{});
  if (size_of(dtype) == 4) return pack_elements<uint32_t>(*this, rows, src.data(), dst.data());
  pack_elements<uint16_t>(*this, rows, src.data(), dst.data());
}

void FragmentPacking::pack(std::span<const std::byte> src, std::span<std::byte> dst) const {
  const auto rows_bytes = static_cast<size_t>(kTile * columns) * size_of(dtype);
  const auto bytes_of_tile = static_cast<size_t>(tile_bytes());
  for (size_t tile = 0; tile < static_cast<size_t>(tiles()); ++tile) {
    pack_tile(static_cast<int64_t>(tile), src.subspan(tile * rows_bytes), dst.subspan(tile * bytes_of_tile));
  }
}

}  // namespace lockstep::cuda
