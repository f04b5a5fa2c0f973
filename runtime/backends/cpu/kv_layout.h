// Where the keys and values of a token lie. All caches share one reserved region:
//
//   slot ─► token block (64 tokens) ─► cache (layer 0 K, layer 0 V, layer 1 K, …) ─► head ─► tile
//
// so the memory of a sequence fills from the front of its slot, block by block, whatever the number of layers. A tile
// of keys is transposed, like a packed weight panel whose 64 outputs are the tokens: [head_dim][64], or
// [head_dim / 2][64][2] where the machine multiplies bfloat16 pairs. A tile of values is [64][head_dim rounded to 16].
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/core/dtype.h"

namespace lockstep::cpu {

constexpr int64_t kTileTokens = kPanel;

enum class CacheRole { kKeys, kValues };

/// One cache inside the region.
struct CacheLayout {
  CacheRole role = CacheRole::kKeys;
  DType dtype = DType::kFloat32;
  bool pairs = false;  // keys only
  int64_t slots = 0;
  int64_t heads = 0;
  int64_t capacity = 0;
  int64_t head_dim = 0;
  std::byte* base = nullptr;  // of slot 0, block 0
  int64_t slot_stride = 0;    // bytes
  int64_t block_stride = 0;   // bytes

  /// Columns of a tile's rows: keys' dimensions padded to pairs, values' to whole strips.
  int64_t padded_dim() const {
    if (role == CacheRole::kValues) return (head_dim + kStrip - 1) / kStrip * kStrip;
    return pairs ? (head_dim + 1) / 2 * 2 : head_dim;
  }
  int64_t tile_bytes() const { return kTileTokens * padded_dim() * static_cast<int64_t>(size_of(dtype)); }
  int64_t blocks() const { return (capacity + kTileTokens - 1) / kTileTokens; }

  std::byte* tile(int64_t slot, int64_t block, int64_t head) const {
    return base + slot * slot_stride + block * block_stride + head * tile_bytes();
  }
  /// The element (not byte) offset of a token's dimension `d` in its tile.
  int64_t element(int64_t token, int64_t d) const {
    if (role == CacheRole::kValues) return token * padded_dim() + d;
    return pairs ? (d / 2 * kTileTokens + token) * 2 + d % 2 : d * kTileTokens + token;
  }

  /// Writes the token at `position`: `rows` holds [heads · head_dim] elements. Heads [begin, end) only.
  void write(int64_t slot, int64_t position, int64_t begin, int64_t end, const std::byte* rows) const;
  /// Reads one head of a token; `dst` has head_dim elements.
  void read(int64_t slot, int64_t position, int64_t head, std::byte* dst) const;
};

}  // namespace lockstep::cpu
