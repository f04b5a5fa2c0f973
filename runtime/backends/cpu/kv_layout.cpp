#include "runtime/backends/cpu/kv_layout.h"

#include <algorithm>
#include <cstring>

namespace lockstep::cpu {
namespace {

/// Writes `count` units, `distance` apart.
template <typename Unit>
void scatter(const std::byte* src, int64_t count, int64_t distance, std::byte* dst) {
  Unit* to = reinterpret_cast<Unit*>(dst);
  for (int64_t i = 0; i < count; ++i) {
    Unit unit;
    std::memcpy(&unit, src + i * sizeof unit, sizeof unit);
    to[i * distance] = unit;
  }
}

template <typename Element>
void gather(const CacheLayout& cache, int64_t token, const std::byte* tile, std::byte* dst) {
  const Element* from = reinterpret_cast<const Element*>(tile);
  Element* to = reinterpret_cast<Element*>(dst);
  for (int64_t d = 0; d < cache.head_dim; ++d) to[d] = from[cache.element(token, d)];
}

}  // namespace

void CacheLayout::copy_values(const Kernels& kernels, int64_t slot, int64_t number, int64_t head,
                              const CacheLayout& values, std::byte* dst) const {
  const int64_t columns = values.head_dim, padded = values.padded_dim();
  if (padded > columns) std::memset(dst, 0, static_cast<size_t>(values.tile_bytes()));
  const TransposeFunction of_elements = size_of(dtype) == 4 ? kernels.transpose_32 : kernels.transpose_16;
  (pairs ? kernels.transpose_pairs : of_elements)(tile(slot, number, head), columns, padded, dst);
}

void CacheLayout::write(int64_t slot, int64_t position, int64_t begin, int64_t end, const std::byte* rows) const {
  const auto size = static_cast<int64_t>(size_of(dtype));
  const int64_t token = position % kTileTokens;
  const int64_t first = element(token, 0);
  const int64_t distance = element(token, 1) - first;
  if (is_ring && begin == 0) written[slot * capacity + row_of(position)] = static_cast<int32_t>(position + 1);
  for (int64_t head = begin; head < end; ++head) {
    std::byte* to = tile(slot, position / kTileTokens, head);
    const std::byte* from = rows + head * head_dim * size;
    if (role == CacheRole::kValues && !pairs) {
      std::memcpy(to + first * size, from, head_dim * size);
    } else if (role == CacheRole::kKeys && pairs) {
      scatter<uint32_t>(from, head_dim / 2, kTileTokens, to + first * size);
      if (head_dim % 2 != 0) std::memcpy(to + element(token, head_dim - 1) * size, from + (head_dim - 1) * size, size);
    } else if (size == 4) {
      scatter<uint32_t>(from, head_dim, distance, to + first * size);
    } else {
      scatter<uint16_t>(from, head_dim, distance, to + first * size);
    }
  }
}

void CacheLayout::read(int64_t slot, int64_t position, int64_t head, std::byte* dst) const {
  const std::byte* from = tile(slot, position / kTileTokens, head);
  if (size_of(dtype) == 4) return gather<uint32_t>(*this, position % kTileTokens, from, dst);
  gather<uint16_t>(*this, position % kTileTokens, from, dst);
}

void CacheLayout::read_row(int64_t slot, int64_t row, int64_t head, std::byte* dst) const {
  const int64_t position = is_ring ? written[slot * capacity + row] - 1 : row;
  if (position >= 0) return read(slot, position, head, dst);
  std::memset(dst, 0, head_dim * size_of(dtype));
}

void CacheLayout::copy_slot(int64_t src, int64_t dst, int64_t tokens) const {
  const int64_t used = std::min((tokens + kTileTokens - 1) / kTileTokens, tiles());
  for (int64_t index = 0; index < used; ++index) {
    const int64_t offset = index * tile_stride;
    std::memcpy(base + dst * slot_stride + offset, base + src * slot_stride + offset,
                static_cast<size_t>(heads * tile_bytes()));
  }
  if (is_ring) std::copy_n(written + src * capacity, capacity, written + dst * capacity);
}

}  // namespace lockstep::cpu
