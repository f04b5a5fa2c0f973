#include "runtime/backends/cpu/kv_layout.h"

#include <gtest/gtest.h>

#include <vector>

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

TEST(CacheLayout, CopiesColumnsOfKeysAsATileOfValues) {
  for (const bool pairs : {false, true}) {
    for (const int64_t columns : {1, 4, 5}) {
      OneSlot slot({.role = CacheRole::kKeys,
                    .dtype = DType::kBFloat16,
                    .pairs = pairs,
                    .heads = 2,
                    .capacity = 100,
                    .head_dim = 5});
      for (int64_t at = 0; at < 100; ++at) slot.write(at);
      CacheLayout values = slot.cache;
      values.role = CacheRole::kValues;
      values.head_dim = columns;
      std::vector<uint16_t> tile(static_cast<size_t>(values.tile_bytes()) / sizeof(uint16_t), 0xffff);
      slot.cache.copy_values(0, /*number=*/1, /*head=*/1, values, reinterpret_cast<std::byte*>(tile.data()));
      for (int64_t token = 0; token < 100 - kTileTokens; ++token) {
        for (int64_t d = 0; d < values.padded_dim(); ++d) {
          const uint16_t expected = d < columns ? expected_at(kTileTokens + token, 1)[static_cast<size_t>(d)] : 0;
          EXPECT_EQ(tile[static_cast<size_t>(values.element(token, d))], expected) << token << " " << d;
        }
      }
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
