#include <immintrin.h>

#include <bit>
#include <cstring>

#include "runtime/probe/kernels.h"

namespace lockstep::probe {
namespace {

constexpr int kTileRows = 16;
constexpr int kTileBytes = 64;  // bytes of a row
constexpr int kSums = 4;        // tiles 0 to 3; tiles 4 and 5 represent x, 6 and 7 weights

/// The operand of LDTILECFG: eight full tiles.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {kTileBytes, kTileBytes, kTileBytes, kTileBytes,
                            kTileBytes, kTileBytes, kTileBytes, kTileBytes};
  uint8_t rows[16] = {kTileRows, kTileRows, kTileRows, kTileRows, kTileRows, kTileRows, kTileRows, kTileRows};
};

struct alignas(64) Tile {
  uint8_t bytes[kTileRows * kTileBytes];
};

/// Configures the tiles: sums at 0, `left` in tiles 4 and 5, `right` in 6 and 7.
void open(const Tile& left, const Tile& right) {
  const TileShapes shapes;
  // Sets all tiles to 0. The intrinsics do not declare that they read memory, so this does.
  asm volatile("ldtilecfg %0" ::"m"(shapes), "r"(&left), "r"(&right) : "memory");
  _tile_loadd(4, left.bytes, kTileBytes);
  _tile_loadd(5, left.bytes, kTileBytes);
  _tile_loadd(6, right.bytes, kTileBytes);
  _tile_loadd(7, right.bytes, kTileBytes);
}

/// Stores and releases the tiles, and returns the total of all sums, which have type T.
template <typename T>
double close() {
  Tile tiles[kSums];
  _tile_stored(0, tiles[0].bytes, kTileBytes);
  _tile_stored(1, tiles[1].bytes, kTileBytes);
  _tile_stored(2, tiles[2].bytes, kTileBytes);
  _tile_stored(3, tiles[3].bytes, kTileBytes);
  _tile_release();
  asm volatile("" ::"r"(tiles) : "memory");  // the intrinsics do not declare that they write it
  double total = 0;
  for (const Tile& tile : tiles) {
    for (size_t at = 0; at < sizeof tile; at += sizeof(T)) {
      T sum;
      std::memcpy(&sum, tile.bytes + at, sizeof sum);
      total += static_cast<double>(sum);
    }
  }
  return total;
}

/// Adds the products of 32 pairs to each of 16 × 16 sums.
double bfloat16_tiles(int64_t rounds, float a, float b) {
  // The upper half of a float: exact, because a and b have few bits.
  const auto fill = [](Tile& tile, float value) {
    const auto bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
    for (size_t at = 0; at < sizeof tile; at += sizeof bits) std::memcpy(tile.bytes + at, &bits, sizeof bits);
  };
  Tile left, right;
  fill(left, a);
  fill(right, b);
  open(left, right);
  for (int64_t round = 0; round < rounds; ++round) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  return close<float>();
}

/// Adds the products of 64 signed and unsigned bytes to each of 16 × 16 sums. Integers represent quarters.
double byte_tiles(int64_t rounds, float a, float b) {
  constexpr float kOfOne = 4.0f;
  Tile left, right;
  std::memset(left.bytes, static_cast<int8_t>(a * kOfOne), sizeof left);
  std::memset(right.bytes, static_cast<int8_t>(b * kOfOne), sizeof right);
  open(left, right);
  for (int64_t round = 0; round < rounds; ++round) {
    _tile_dpbsud(0, 4, 6);
    _tile_dpbsud(1, 4, 7);
    _tile_dpbsud(2, 5, 6);
    _tile_dpbsud(3, 5, 7);
  }
  return close<int32_t>() / (kOfOne * kOfOne);
}

}  // namespace

std::span<const DotKernel> amx_dot_kernels() {
  static constexpr DotKernel kKernels[] = {
      {"tiles of bfloat16 pairs, 4 sums", Precision::kBFloat16, int64_t{2} * 256 * 32 * kSums, bfloat16_tiles}};
  return kKernels;
}

std::span<const DotKernel> amx_byte_dot_kernels() {
  static constexpr DotKernel kKernels[] = {
      {"tiles of bytes, 4 sums", Precision::kInt8, int64_t{2} * 256 * 64 * kSums, byte_tiles}};
  return kKernels;
}

}  // namespace lockstep::probe
