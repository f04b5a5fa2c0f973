#include "runtime/backends/cpu/kv_layout.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "runtime/backends/cpu/isa.h"

namespace lockstep::cpu {
namespace {

/// A cache of one slot with its memory.
struct OneSlot {
  CacheLayout cache;
  std::vector<std::byte> memory;
  std::vector<int32_t> written;

  explicit OneSlot(const CacheLayout& layout) : cache(layout) {
    cache.slots = 1;
    cache.tile_stride = cache.heads * cache.tile_bytes();
    cache.slot_stride = cache.tiles() * cache.tile_stride;
    memory.resize(static_cast<size_t>(cache.slot_stride));
    written.resize(static_cast<size_t>(cache.capacity));
    cache.base = memory.data();
    cache.written = written.data();
  }

  /// Two heads of five numbers that encode the position.
  void write(int64_t position) {
    std::vector<uint16_t> token;
    for (int i = 0; i < 10; ++i) token.push_back(static_cast<uint16_t>(position * 10 + i));
    cache.write(0, position, 0, 2, reinterpret_cast<const std::byte*>(token.data()));
  }
  std::vector<uint16_t> read_row(int64_t row, int64_t head) const {
    std::vector<uint16_t> read(5);
    cache.read_row(0, row, head, reinterpret_cast<std::byte*>(read.data()));
    return read;
  }
};

std::vector<uint16_t> expected_at(int64_t position, int64_t head) {
  std::vector<uint16_t> numbers;
  for (int64_t d = 0; d < 5; ++d) numbers.push_back(static_cast<uint16_t>(position * 10 + head * 5 + d));
  return numbers;
}

TEST(CacheLayout, ReadsWhatWasWritten) {
  for (const bool pairs : {false, true}) {
    for (const CacheRole role : {CacheRole::kKeys, CacheRole::kValues}) {
      OneSlot slot(
          {.role = role, .dtype = DType::kBFloat16, .pairs = pairs, .heads = 2, .capacity = 100, .head_dim = 5});
      for (int64_t at = 0; at < 100; ++at) slot.write(at);
      for (int64_t at = 0; at < 100; ++at) EXPECT_EQ(slot.read_row(at, 1), expected_at(at, 1));
    }
  }
}

/// Element `index` of a tile, as a number of its size.
uint32_t element_of(const std::vector<std::byte>& tile, int64_t index, size_t size) {
  uint32_t element = 0;
  std::memcpy(&element, tile.data() + index * static_cast<int64_t>(size), size);
  return element;
}

/// Values, copied with the kernels of `isa`, are the first columns of the keys, and zeros beyond.
void expect_copied_values(Isa isa, DType dtype, bool pairs, int64_t columns) {
  constexpr int64_t kHeads = 2, kColumns = 45;
  const OneSlot slot({.role = CacheRole::kKeys,
                      .dtype = dtype,
                      .pairs = pairs,
                      .heads = kHeads,
                      .capacity = 2 * kTileTokens,
                      .head_dim = kColumns});
  const size_t size = size_of(dtype);
  std::vector<std::byte> row(static_cast<size_t>(kHeads * kColumns) * size);
  std::minstd_rand random(7);
  for (int64_t at = 0; at < slot.cache.capacity; ++at) {
    for (std::byte& byte : row) byte = static_cast<std::byte>(random() >> 8);
    slot.cache.write(0, at, 0, kHeads, row.data());
  }
  CacheLayout values = slot.cache;
  values.role = CacheRole::kValues;
  values.head_dim = columns;
  std::vector<std::byte> tile(static_cast<size_t>(values.tile_bytes()), std::byte{0xff}), key(kColumns * size);
  slot.cache.copy_values(kernels_for(isa), 0, /*number=*/1, /*head=*/1, values, tile.data());
  for (int64_t token = 0; token < kTileTokens; ++token) {
    slot.cache.read(0, kTileTokens + token, 1, key.data());
    for (int64_t d = 0; d < values.padded_dim(); ++d) {
      const uint32_t expected = d < columns ? element_of(key, d, size) : 0;
      ASSERT_EQ(element_of(tile, values.element(token, d), size), expected) << columns << ": " << token << " " << d;
    }
  }
}

TEST(CacheLayout, CopiesColumnsOfKeysAsATileOfValues) {
  for (const Isa isa : available_isas()) {
    for (const int64_t columns : {1, 4, 7, 8, 16, 27, 40, 45}) {
      expect_copied_values(isa, DType::kFloat32, /*pairs=*/false, columns);
      expect_copied_values(isa, DType::kBFloat16, /*pairs=*/false, columns);
      expect_copied_values(isa, DType::kBFloat16, /*pairs=*/true, columns);
    }
  }
}

TEST(CacheLayout, ShowsARingAsTheRowsOfTheGraph) {
  for (const int64_t pinned : {0, 3, 64, 90}) {
    OneSlot slot({.dtype = DType::kBFloat16,
                  .heads = 2,
                  .capacity = pinned + 100,
                  .head_dim = 5,
                  .is_ring = true,
                  .pinned = pinned});
    std::vector<int64_t> in_row(static_cast<size_t>(pinned + 100), -1);
    for (int64_t at = 0; at < 777; ++at) {
      slot.write(at);
      in_row[at < pinned ? at : pinned + (at - pinned) % 100] = at;
      if (at % 97 != 5) continue;
      for (int64_t row = 0; row < pinned + 100; ++row) {
        const std::vector<uint16_t> expected =
            in_row[row] < 0 ? std::vector<uint16_t>(5, 0) : expected_at(in_row[row], 1);
        ASSERT_EQ(slot.read_row(row, 1), expected) << "pinned " << pinned << " row " << row << " after " << at;
      }
    }
  }
}

TEST(CacheLayout, GivesARingATileMoreThanItsRowsFill) {
  const auto tiles = [](int64_t capacity, int64_t pinned) {
    return CacheLayout{.capacity = capacity, .is_ring = true, .pinned = pinned}.tiles();
  };
  EXPECT_EQ(tiles(1, 0), 1);
  EXPECT_EQ(tiles(2, 0), 2);
  EXPECT_EQ(tiles(64, 0), 2);
  EXPECT_EQ(tiles(66, 0), 3);
  EXPECT_EQ(tiles(70, 4), 1 + 3);
  EXPECT_EQ((CacheLayout{.capacity = 65}.tiles()), 2);
}

}  // namespace
}  // namespace lockstep::cpu
