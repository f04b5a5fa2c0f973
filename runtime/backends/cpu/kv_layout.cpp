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

constexpr uint8_t kSignBit = 0x80;  // added to an integer, modulo 256, it makes a signed one unsigned, and back

/// A row that was never written is zero, whatever its codes: its scale is.
void gather_codes(const CacheLayout& cache, int64_t token, const std::byte* tile, std::byte* dst) {
  float scale = 0.0f;
  std::memcpy(&scale, tile + kTileTokens * cache.padded_dim() + token * kRowScaleBytes, sizeof scale);
  std::memcpy(dst + cache.head_dim, &scale, sizeof scale);
  if (scale == 0.0f) return static_cast<void>(std::memset(dst, 0, static_cast<size_t>(cache.head_dim)));
  const std::byte flipped{cache.dtype == DType::kInt8 && cache.role == CacheRole::kKeys ? kSignBit : uint8_t{0}};
  for (int64_t d = 0; d < cache.head_dim; ++d) dst[d] = tile[cache.element(token, d)] ^ flipped;
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

void CacheLayout::write_codes(int64_t slot, int64_t position, int64_t head, const std::byte* row) const {
  const int64_t token = position % kTileTokens;
  std::byte* const to = tile(slot, position / kTileTokens, head);
  if (is_ring && head == 0) written[slot * capacity + row_of(position)] = static_cast<int32_t>(position + 1);
  const std::byte flipped{dtype == DType::kInt8 && role == CacheRole::kKeys ? kSignBit : uint8_t{0}};
  for (int64_t d = 0; d < head_dim; ++d) to[element(token, d)] = row[d] ^ flipped;
  std::memcpy(to + kTileTokens * padded_dim() + token * kRowScaleBytes, row + head_dim, kRowScaleBytes);
}

void CacheLayout::read(int64_t slot, int64_t position, int64_t head, std::byte* dst) const {
  const std::byte* from = tile(slot, position / kTileTokens, head);
  if (is_coded()) return gather_codes(*this, position % kTileTokens, from, dst);
  if (size_of(dtype) == 4) return gather<uint32_t>(*this, position % kTileTokens, from, dst);
  gather<uint16_t>(*this, position % kTileTokens, from, dst);
}

void CacheLayout::read_row(int64_t slot, int64_t row, int64_t head, std::byte* dst) const {
  const int64_t position = is_ring ? written[slot * capacity + row] - 1 : row;
  if (position >= 0) return read(slot, position, head, dst);
  std::memset(dst, 0, static_cast<size_t>(row_bytes()));
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
