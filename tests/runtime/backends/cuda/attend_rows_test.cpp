// Attention of many rows, to the bit as attention of each row and head alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/core/dtype.h"
#include "tests/cuda_stand_in/simt.h"

namespace lockstep::cuda {
namespace {

struct Case {
  const char* name;
  DType dtype = DType::kBFloat16;
  int head_dim = 64;
  int cache_heads = 2;
  int group = 2;  // query heads of a cache head
  int window = 0;
  int pinned = 0;
  int turning = 0;  // tiles of a ring
  float soft_cap = 0.0f;
  bool has_slopes = false;
  bool has_sinks = false;

  friend void PrintTo(const Case& tested, std::ostream* out) { *out << tested.name; }
};

constexpr int kSlots = 2;
constexpr int kTiles = 4;
constexpr std::byte kUntouched{0x5a};

class AttendRows : public testing::TestWithParam<Case> {
 protected:
  AttendRows() {
    // Two prompts and a row of padding between them; the cache behind their last positions is NaN.
    for (int position = 120; position < 150; ++position) add_row(0, position);
    add_row(-1, 3);
    for (int position = 56; position < 70; ++position) add_row(1, position);
    for (int head = 0; head < heads(); ++head) head_map_.push_back((head + 1) % heads() / c_.group);
    fixed_ = c_.turning > 0 ? (c_.pinned + kTileTokens - 1) / kTileTokens : kTiles;
    tile_stride_ = int64_t{c_.cache_heads} * kTileTokens * c_.head_dim;
    const int64_t elements = kSlots * (fixed_ + c_.turning) * tile_stride_;
    keys_.resize(static_cast<size_t>(elements) * size_of(c_.dtype), std::byte{0xff});
    values_ = keys_;
    fill(0, 149);
    fill(1, 69);
    q_.resize(slots_.size() * static_cast<size_t>(heads() * c_.head_dim) * size_of(c_.dtype));
    for (size_t i = 0; i < q_.size() / size_of(c_.dtype); ++i) put(q_, static_cast<int64_t>(i), 0.3f * number(i, 3));
    for (int head = 0; head < heads(); ++head) {
      slopes_.push_back(0.5f / static_cast<float>(head + 1));
      sinks_.push_back(static_cast<float>(head) - 1.0f);
    }
  }

  int heads() const { return c_.cache_heads * c_.group; }
  void add_row(int slot, int position) {
    slots_.push_back(slot);
    positions_.push_back(position);
  }
  static float number(uint64_t a, uint64_t b) { return std::sin(static_cast<float>((a * 7919 + b * 104729) % 99991)); }
  void put(std::vector<std::byte>& to, int64_t at, float value) {
    convert_elements(reinterpret_cast<const std::byte*>(&value), DType::kFloat32,
                     to.data() + static_cast<size_t>(at) * size_of(c_.dtype), c_.dtype, 1);
  }
  void fill(int slot, int last) {
    for (int position = 0; position <= last; ++position) {
      int tile = position / kTileTokens;
      if (c_.turning > 0 && tile >= fixed_) tile = fixed_ + (tile - fixed_) % c_.turning;
      for (int i = 0; i < c_.cache_heads * c_.head_dim; ++i) {
        const int64_t at = (slot * (fixed_ + c_.turning) + tile) * tile_stride_ +
                           (i / c_.head_dim * kTileTokens + position % kTileTokens) * c_.head_dim + i % c_.head_dim;
        const auto which = static_cast<uint64_t>((slot * 1000 + position) * 1000 + i);
        put(keys_, at, number(which, 1));
        put(values_, at, number(which, 2));
      }
    }
  }

  AttendParameters parameters(std::vector<std::byte>& y) const {
    const auto stride = static_cast<int64_t>(heads()) * c_.head_dim;
    return {.q = q_.data(),
            .pinned_q = nullptr,
            .keys = keys_.data(),
            .values = values_.data(),
            .slot = slots_.data(),
            .position = positions_.data(),
            .head_map = head_map_.data(),
            .slopes = c_.has_slopes ? slopes_.data() : nullptr,
            .sinks = c_.has_sinks ? sinks_.data() : nullptr,
            .y = y.data(),
            .q_stride = stride,
            .pinned_q_stride = 0,
            .y_stride = stride,
            .tiles = {(fixed_ + c_.turning) * tile_stride_, tile_stride_, fixed_, c_.turning},
            .rows = {nullptr, static_cast<int32_t>(slots_.size())},
            .heads = heads(),
            .head_dim = c_.head_dim,
            .window = c_.window,
            .pinned = c_.pinned,
            .scale = 0.2f,
            .soft_cap = c_.soft_cap,
            .is_float_per_head = 1};
  }
  std::string kernel(const char* name) const { return name + ("_" + std::string(to_string(c_.dtype))); }

  std::vector<std::byte> each_alone() {
    std::vector<std::byte> y(q_.size(), kUntouched);
    const AttendParameters p = parameters(y);
    EXPECT_EQ(simt::run(*simt::find_kernel(kernel("attend").c_str()),
                        {.blocks = p.rows.rows * heads(),
                         .threads = kAttendThreads,
                         .shared_bytes = 2 * kTileTokens * sizeof(float)},
                        &p),
              "");
    return y;
  }
  std::vector<std::byte> together(simt::Order order) {
    std::vector<std::byte> y(q_.size(), kUntouched);
    const int at_once = std::min(c_.group, kRowsHeads);
    std::vector<int32_t> chunks;
    for (int cache_head = 0; cache_head < c_.cache_heads; ++cache_head) {
      for (int head = 0; head < heads(); ++head) {
        if (head_map_[static_cast<size_t>(head)] == cache_head) chunks.push_back(head);
      }
      while (std::ssize(chunks) % at_once != 0) chunks.push_back(-1);
    }
    const AttendRowsParameters p{.attend = parameters(y),
                                 .heads = chunks.data(),
                                 .chunks = static_cast<int32_t>(std::ssize(chunks) / at_once),
                                 .heads_at_once = at_once,
                                 .rows_of_block = kRowsQueries / at_once};
    const int tiles = (p.attend.rows.rows + p.rows_of_block - 1) / p.rows_of_block;
    EXPECT_EQ(simt::run(*simt::find_kernel(kernel("attend_rows").c_str()),
                        {.blocks = tiles * p.chunks,
                         .threads = kRowsThreads,
                         .shared_bytes = static_cast<size_t>(attend_rows_bytes(c_.head_dim)),
                         .order = order},
                        &p),
              "");
    return y;
  }

  const Case c_ = GetParam();
  std::vector<int32_t> slots_, positions_, head_map_;
  std::vector<std::byte> keys_, values_, q_;
  std::vector<float> slopes_, sinks_;
  int fixed_ = 0;
  int64_t tile_stride_ = 0;
};

TEST_P(AttendRows, ShareTilesWithTheBitsOfEachAlone) {
  const std::vector<std::byte> alone = each_alone();
  EXPECT_EQ(together(simt::Order::kShuffled), alone);
  if (std::string(c_.name) != "plain") return;
  for (const simt::Order order : {simt::Order::kUp, simt::Order::kDown}) EXPECT_EQ(together(order), alone);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, AttendRows,
    testing::Values(Case{.name = "plain"}, Case{.name = "f16", .dtype = DType::kFloat16, .head_dim = 128},
                    Case{.name = "f32", .dtype = DType::kFloat32, .head_dim = 36, .cache_heads = 1, .group = 3},
                    Case{.name = "narrow", .head_dim = 8, .group = 1},
                    Case{.name = "wide_group", .cache_heads = 1, .group = 6}, Case{.name = "window", .window = 50},
                    Case{.name = "pinned", .window = 30, .pinned = 5}, Case{.name = "ring", .window = 60, .turning = 3},
                    Case{.name = "soft_cap", .soft_cap = 2.0f}, Case{.name = "slopes", .has_slopes = true},
                    Case{.name = "sinks", .window = 70, .has_sinks = true}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace lockstep::cuda
