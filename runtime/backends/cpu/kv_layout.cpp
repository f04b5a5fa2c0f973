#include "runtime/backends/cpu/kv_layout.h"

#include <algorithm>
#include <cstring>

namespace lockstep::cpu {
namespace {

template <typename Element>
void scatter(const CacheLayout& cache, int64_t token, const std::byte* src, std::byte* tile) {
  const Element* from = reinterpret_cast<const Element*>(src);
  Element* to = reinterpret_cast<Element*>(tile);
  for (int64_t d = 0; d < cache.head_dim; ++d) to[cache.element(token, d)] = from[d];
}

template <typename Element>
void gather(const CacheLayout& cache, int64_t token, const std::byte* tile, std::byte* dst) {
  const Element* from = reinterpret_cast<const Element*>(tile);
  Element* to = reinterpret_cast<Element*>(dst);
  for (int64_t d = 0; d < cache.head_dim; ++d) to[d] = from[cache.element(token, d)];
}

}  // namespace

void CacheLayout::write(int64_t slot, int64_t position, int64_t begin, int64_t end, const std::byte* rows) const {
  const int64_t bytes = head_dim * static_cast<int64_t>(size_of(dtype));
  const int64_t token = position % kTileTokens;
  if (is_ring && begin == 0) written[slot * capacity + row_of(position)] = static_cast<int32_t>(position + 1);
  for (int64_t head = begin; head < end; ++head) {
    std::byte* to = tile(slot, position / kTileTokens, head);
    const std::byte* from = rows + head * bytes;
    if (role == CacheRole::kValues && !pairs) {
      std::memcpy(to + element(token, 0) * static_cast<int64_t>(size_of(dtype)), from, bytes);
    } else if (size_of(dtype) == 4) {
      scatter<uint32_t>(*this, token, from, to);
    } else {
      scatter<uint16_t>(*this, token, from, to);
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
