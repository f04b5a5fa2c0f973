// The memory layout of keys and values. Caches with equally many tiles share a region:
//
//   slot ─► tile of 64 tokens ─► cache (layer 0 K, layer 0 V, layer 1 K, …) ─► head
//
// The memory of a sequence therefore fills from the front of its slot, tile by tile, for any number of layers. A tile
// of keys is transposed, like a packed weight panel with the tokens as its 64 outputs: [head_dim][64], or
// [head_dim / 2][64][2] on machines with bfloat16 pair products. A tile of values is [64][head_dim rounded to 16], or
// [32][head_dim rounded to 16][2] with pairs of tokens.
//
// A tile in 8 bits (runtime/core/cache_rows.h) has four bytes where others have pairs, [head_dim / 4][64][4] and
// [16][head_dim rounded to 16][4], and then the scales of its 64 tokens, float32. Integers of keys are unsigned there:
// 128 is added, as instructions for products of bytes expect.
//
// A ring keeps its pinned tiles and reuses the others in turn. Tiles start at multiples of 64 positions, so that sums
// over a window always have the same order. This needs up to 63 more tokens than the graph's ring of `capacity` rows:
//
//   pinned 4, capacity 4 + 100 (3 turning tiles)    memory   │ P │ 1 │ 2 │ 3 │      position 300 lies in tile 4, which
//   positions 0 … 300                               holds    │ 0 │ 4 │ 2 │ 3 │      took the place of tile 1
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/core/cache_rows.h"
#include "runtime/core/dtype.h"
#include "runtime/device/row_limits.h"

namespace lockstep::cpu {

constexpr int64_t kTileTokens = kPanel;

enum class CacheRole { kKeys, kValues };

/// One cache inside its region.
struct CacheLayout {
  CacheRole role = CacheRole::kKeys;
  DType dtype = DType::kFloat32;
  bool pairs = false;  // pairs of dimensions (keys) or tokens (values)
  int64_t slots = 0;
  int64_t heads = 0;
  int64_t capacity = 0;  // rows of the graph's state
  int64_t head_dim = 0;
  bool is_ring = false;
  int64_t pinned = 0;          // rings only: the number of first positions that are kept
  std::byte* base = nullptr;   // of slot 0, tile 0
  int64_t slot_stride = 0;     // bytes
  int64_t tile_stride = 0;     // bytes
  int32_t* written = nullptr;  // rings only: [slots, capacity], the last position written to a row, plus 1

  bool is_coded() const { return has_row_scales(dtype); }
  /// Columns of a tile's rows: key dimensions padded to pairs or fours, value dimensions to whole strips.
  int64_t padded_dim() const {
    if (role == CacheRole::kValues) return (head_dim + kStrip - 1) / kStrip * kStrip;
    if (is_coded()) return (head_dim + 3) / 4 * 4;
    return pairs ? (head_dim + 1) / 2 * 2 : head_dim;
  }
  int64_t tile_bytes() const {
    return kTileTokens * (padded_dim() * static_cast<int64_t>(size_of(dtype)) + (is_coded() ? kRowScaleBytes : 0));
  }
  /// Tiles that are never reused: all of them, unless the cache is a ring.
  int64_t fixed_tiles() const { return ((is_ring ? pinned : capacity) + kTileTokens - 1) / kTileTokens; }
  /// Tiles of a ring that are reused in turn: `capacity − pinned` consecutive positions touch at most this many.
  int64_t turning_tiles() const { return is_ring ? (capacity - pinned + 2 * (kTileTokens - 1)) / kTileTokens : 0; }
  int64_t tiles() const { return fixed_tiles() + turning_tiles(); }

  /// The tile that starts at position 64 · `number`.
  std::byte* tile(int64_t slot, int64_t number, int64_t head) const {
    if (number >= fixed_tiles()) number = fixed_tiles() + (number - fixed_tiles()) % turning_tiles();
    return base + slot * slot_stride + number * tile_stride + head * tile_bytes();
  }
  device::HeldPositions held() const {
    return {.slots = slots, .capacity = capacity, .is_ring = is_ring, .pinned = pinned};
  }
  /// The row of the graph's state for `position`.
  int64_t row_of(int64_t position) const {
    return is_ring && position >= pinned ? pinned + (position - pinned) % (capacity - pinned) : position;
  }
  /// The element (not byte) offset of a token's dimension `d` in its tile.
  int64_t element(int64_t token, int64_t d) const {
    if (is_coded() && role == CacheRole::kValues) return (token / 4 * padded_dim() + d) * 4 + token % 4;
    if (is_coded()) return (d / 4 * kTileTokens + token) * 4 + d % 4;
    if (role == CacheRole::kValues && pairs) return (token / 2 * padded_dim() + d) * 2 + token % 2;
    if (role == CacheRole::kValues) return token * padded_dim() + d;
    return pairs ? (d / 2 * kTileTokens + token) * 2 + d % 2 : d * kTileTokens + token;
  }

  /// Writes heads [begin, end) of the token at `position`; `rows` holds [heads · head_dim] elements.
  void write(int64_t slot, int64_t position, int64_t begin, int64_t end, const std::byte* rows) const;
  /// The same for one head of a cache in 8 bits; `row` is its codes and their scale.
  void write_codes(int64_t slot, int64_t position, int64_t head, const std::byte* row) const;
  /// Bytes of one head of a token as the graph has it.
  int64_t row_bytes() const { return row_elements(dtype, head_dim) * static_cast<int64_t>(size_of(dtype)); }
  /// Reads one head of a token, `row_bytes()`.
  void read(int64_t slot, int64_t position, int64_t head, std::byte* dst) const;
  /// Copies the first columns of the keys of tile `number` to `dst`, a tile of `values`: [kTileTokens] of its layout.
  void copy_values(const Kernels& kernels, int64_t slot, int64_t number, int64_t head, const CacheLayout& values,
                   std::byte* dst) const;
  /// Copies the `tokens` written positions of slot `src` to slot `dst`.
  void copy_slot(int64_t src, int64_t dst, int64_t tokens) const;
  /// Calls `visit(memory, bytes)` for every contiguous range of `slot` used by `tokens` written positions.
  template <typename Visit>
  void for_each_stretch(int64_t slot, int64_t tokens, Visit visit) const {
    const int64_t used = std::min((tokens + kTileTokens - 1) / kTileTokens, tiles());
    for (int64_t index = 0; index < used; ++index) {
      visit(base + slot * slot_stride + index * tile_stride, heads * tile_bytes());
    }
    if (!is_ring) return;
    visit(reinterpret_cast<std::byte*>(written + slot * capacity), capacity * static_cast<int64_t>(sizeof(int32_t)));
  }
  /// Reads one head of a row of the graph's state; in a ring, the position last written to it (zeros if none). Rows of
  /// an earlier, longer sequence of the slot may be lost.
  void read_row(int64_t slot, int64_t row, int64_t head, std::byte* dst) const;
};

}  // namespace lockstep::cpu
