// Attention of many rows, to the bit as attention of each row alone; in 16 bits also as its formula says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "runtime/backends/cuda/kernels/attention_16.h"
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
  bool has_pinned_q = false;
  bool has_infinities = false;  // values that most rows do not see
  int value_columns = 0;        // of the keys, which are values; 0: values have a cache

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
    if (c_.value_columns == 0) values_ = keys_;
    fill(0, 149);
    fill(1, 69);
    q_.resize(slots_.size() * static_cast<size_t>(heads() * c_.head_dim) * size_of(c_.dtype));
    pinned_q_ = q_;
    for (size_t i = 0; i < q_.size() / size_of(c_.dtype); ++i) {
      put(q_, static_cast<int64_t>(i), 0.3f * number(i, 3));
      put(pinned_q_, static_cast<int64_t>(i), 0.3f * number(i, 4));
    }
    for (int head = 0; head < heads(); ++head) {
      slopes_.push_back(0.5f / static_cast<float>(head + 1));
      sinks_.push_back(static_cast<float>(head) - 1.0f);
    }
  }

  int heads() const { return c_.cache_heads * c_.group; }
  int columns() const { return c_.value_columns > 0 ? c_.value_columns : c_.head_dim; }  // of a result
  int tiles_of_unit() const { return c_.value_columns > 0 ? 1 : 2; }
  const std::vector<std::byte>& values() const { return c_.value_columns > 0 ? keys_ : values_; }
  auto untouched() const { return std::vector(slots_.size() * row_bytes(), kUntouched); }
  size_t row_bytes() const { return static_cast<size_t>(heads() * columns()) * size_of(c_.dtype); }  // of the result
  void add_row(int slot, int position) {
    slots_.push_back(slot);
    positions_.push_back(position);
  }
  static float number(uint64_t a, uint64_t b) { return std::sin(static_cast<float>((a * 7919 + b * 104729) % 99991)); }
  void put(std::vector<std::byte>& to, int64_t at, float value) {
    convert_elements(reinterpret_cast<const std::byte*>(&value), DType::kFloat32,
                     to.data() + static_cast<size_t>(at) * size_of(c_.dtype), c_.dtype, 1);
  }
  float get(const std::vector<std::byte>& from, int64_t at) const {
    float value;
    convert_elements(from.data() + static_cast<size_t>(at) * size_of(c_.dtype), c_.dtype,
                     reinterpret_cast<std::byte*>(&value), DType::kFloat32, 1);
    return value;
  }
  /// Where the caches have a position's first element of a head.
  int64_t place(int slot, int position, int cache_head) const {
    int tile = position / kTileTokens;
    if (c_.turning > 0 && tile >= fixed_) tile = fixed_ + (tile - fixed_) % c_.turning;
    return (slot * (fixed_ + c_.turning) + tile) * tile_stride_ +
           (cache_head * kTileTokens + position % kTileTokens) * int64_t{c_.head_dim};
  }
  void fill(int slot, int last) {
    for (int position = 0; position <= last; ++position) {
      const bool is_infinite = c_.has_infinities && (slot == 0 ? position == 20 || position == 148 : position == 66);
      for (int i = 0; i < c_.cache_heads * c_.head_dim; ++i) {
        const int64_t at = place(slot, position, i / c_.head_dim) + i % c_.head_dim;
        const auto which = static_cast<uint64_t>((slot * 1000 + position) * 1000 + i);
        put(keys_, at, number(which, 1));
        if (!values_.empty()) put(values_, at, is_infinite ? std::numeric_limits<float>::infinity() : number(which, 2));
      }
    }
  }

  AttendParameters parameters(std::vector<std::byte>& y) const {
    const auto stride = static_cast<int64_t>(heads()) * c_.head_dim;
    return {.q = q_.data(),
            .pinned_q = c_.has_pinned_q ? pinned_q_.data() : nullptr,
            .keys = keys_.data(),
            .values = values().data(),
            .slot = slots_.data(),
            .position = positions_.data(),
            .head_map = head_map_.data(),
            .slopes = c_.has_slopes ? slopes_.data() : nullptr,
            .sinks = c_.has_sinks ? sinks_.data() : nullptr,
            .y = y.data(),
            .q_stride = stride,
            .pinned_q_stride = stride,
            .y_stride = static_cast<int64_t>(heads()) * columns(),
            .tiles = {(fixed_ + c_.turning) * tile_stride_, tile_stride_, fixed_, c_.turning},
            .rows = {nullptr, static_cast<int32_t>(slots_.size())},
            .heads = heads(),
            .head_dim = c_.head_dim,
            .value_columns = columns(),
            .window = c_.window,
            .pinned = c_.pinned,
            .scale = 0.2f,
            .soft_cap = c_.soft_cap,
            .is_float_per_head = 1};
  }
  std::string kernel(const char* name) const { return name + ("_" + std::string(to_string(c_.dtype))); }

  bool is_16() const { return size_of(c_.dtype) == 2; }
  std::vector<std::byte> each_alone() {
    std::vector<std::byte> y = untouched();
    const AttendParameters p = parameters(y);
    if (is_16()) {
      for (int row = 0; row < p.rows.rows; ++row) tiles_of_row(p, row);
      return y;
    }
    EXPECT_EQ(simt::run(*simt::find_kernel(kernel("attend").c_str()),
                        {.blocks = p.rows.rows * heads(),
                         .threads = kAttendThreads,
                         .shared_bytes = 2 * kTileTokens * sizeof(float)},
                        &p),
              "");
    return y;
  }
  /// Attention of one row, as a decode step computes it.
  void tiles_of_row(AttendParameters p, int row) {
    const auto row_of = [&](const void* base) {
      return static_cast<const std::byte*>(base) + static_cast<size_t>(row) * q_.size() / slots_.size();
    };
    p.q = row_of(p.q);
    if (p.pinned_q != nullptr) p.pinned_q = row_of(p.pinned_q);
    p.y = static_cast<std::byte*>(p.y) + static_cast<size_t>(row) * row_bytes();
    p.slot += row;
    p.position += row;
    p.rows.rows = 1;
    std::vector<int32_t> by_group, first_heads = {0};
    for (int cache_head = 0; cache_head < c_.cache_heads; ++cache_head) {
      for (int head = 0; head < heads(); ++head) {
        if (head_map_[static_cast<size_t>(head)] == cache_head) by_group.push_back(head);
      }
      first_heads.push_back(static_cast<int32_t>(by_group.size()));
    }
    const auto places = static_cast<size_t>(heads() * kTiles);
    std::vector<float> maxima(places, std::nanf("")), sums(maxima);
    std::vector<float> values(places * static_cast<size_t>(columns()), std::nanf(""));
    std::vector<uint32_t> arrivals(static_cast<size_t>(c_.cache_heads), 0);
    const auto shared =
        static_cast<int32_t>(attend_tiles_16_bytes(c_.head_dim, c_.has_pinned_q ? 2 : 1, tiles_of_unit()));
    const AttendTilesParameters tiles{.attend = p,
                                      .of_rows = {maxima.data(), sums.data(), values.data(), kTiles},
                                      .heads = by_group.data(),
                                      .first_heads = first_heads.data(),
                                      .arrivals = arrivals.data(),
                                      .groups = c_.cache_heads,
                                      .shared_bytes = shared};
    const simt::Grid grid{.blocks = 2,
                          .threads = kAttendThreads,
                          .shared_bytes = static_cast<size_t>(shared),
                          .order = row % 2 == 0 ? simt::Order::kShuffled : simt::Order::kDown};
    EXPECT_EQ(simt::run(*simt::find_kernel(kernel("attend_tiles").c_str()), grid, &tiles), "");
    EXPECT_THAT(arrivals, testing::Each(0u));
  }
  std::vector<std::byte> together(simt::Order order, int threads) {  // of a block
    return together(
        order, threads, "attend_rows", (columns() + kRowsHeadDim - 1) / kRowsHeadDim,
        is_16() ? attend_rows_16_bytes(threads, c_.head_dim, c_.has_pinned_q ? 2 : 1) : attend_rows_bytes(c_.head_dim));
  }
  std::vector<std::byte> together(simt::Order order, int threads, const char* name, int parts, int64_t shared) {
    std::vector<std::byte> y = untouched();
    const int at_once = std::min(c_.group, is_16() ? kRows16Heads : kRowsHeads);
    std::vector<int32_t> chunks;
    for (int cache_head = 0; cache_head < c_.cache_heads; ++cache_head) {
      for (int head = 0; head < heads(); ++head) {
        if (head_map_[static_cast<size_t>(head)] == cache_head) chunks.push_back(head);
      }
      while (std::ssize(chunks) % at_once != 0) chunks.push_back(-1);
    }
    const bool has_parts = is_16() && std::string_view(name) == "attend_rows";
    const AttendRowsParameters p{.attend = parameters(y),
                                 .heads = chunks.data(),
                                 .chunks = static_cast<int32_t>(std::ssize(chunks) / at_once),
                                 .heads_at_once = at_once,
                                 .rows_of_block = (has_parts ? rows_16_queries(threads) : kRowsQueries) / at_once,
                                 .parts = parts,
                                 .shared_bytes = static_cast<int32_t>(shared)};
    const int tiles = (p.attend.rows.rows + p.rows_of_block - 1) / p.rows_of_block;
    EXPECT_EQ(simt::run(*simt::find_kernel(kernel(name).c_str()),
                        {.blocks = tiles * p.chunks * p.parts,
                         .threads = threads,
                         .shared_bytes = static_cast<size_t>(shared),
                         .order = order},
                        &p),
              "");
    return y;
  }

  const Case c_ = GetParam();
  std::vector<int32_t> slots_, positions_, head_map_;
  std::vector<std::byte> keys_, values_, q_, pinned_q_;
  std::vector<float> slopes_, sinks_;
  int fixed_ = 0;
  int64_t tile_stride_ = 0;
};

TEST_P(AttendRows, ShareTilesWithTheBitsOfEachAlone) {
  const std::vector<std::byte> alone = each_alone();
  EXPECT_EQ(together(simt::Order::kShuffled, kRowsThreads), alone);
  if (is_16()) {
    EXPECT_EQ(together(simt::Order::kDown, kRows16Threads / 2), alone);
  }
  for (const simt::Order order : {simt::Order::kUp, simt::Order::kDown, simt::Order::kShuffled}) {
    if (is_16() && c_.value_columns > 0) {
      EXPECT_EQ(together(order, kRows16Threads, "attend_pairs", 1, attend_pairs_bytes(c_.head_dim)), alone);
    }
  }
  if (!std::string(c_.name).ends_with("plain")) return;
  for (const simt::Order order : {simt::Order::kUp, simt::Order::kDown})
    EXPECT_EQ(together(order, kRowsThreads), alone);
}

/// The formula of attention in 16 bits, of a row and head, in plain loops.
class Attend16 : public AttendRows {
 protected:
  float rounded(float value) const {
    std::vector<std::byte> element(size_of(c_.dtype));
    float back = 0.0f;
    convert_elements(reinterpret_cast<const std::byte*>(&value), DType::kFloat32, element.data(), c_.dtype, 1);
    convert_elements(element.data(), c_.dtype, reinterpret_cast<std::byte*>(&back), DType::kFloat32, 1);
    return back;
  }
  bool sees(int row, int position) const {
    const int own = positions_[static_cast<size_t>(row)];
    return position <= own && (c_.window == 0 || position > own - c_.window || position < c_.pinned);
  }
  float product(int row, int head, int position) const {
    const std::vector<std::byte>& q = c_.has_pinned_q && position < c_.pinned ? pinned_q_ : q_;
    const int64_t key = place(slots_[static_cast<size_t>(row)], position, head_map_[static_cast<size_t>(head)]);
    float sum = 0.0f;
    for (int i = 0; i < c_.head_dim; ++i) {
      sum = std::fma(get(q, (int64_t{row} * heads() + head) * c_.head_dim + i), get(keys_, key + i), sum);
    }
    return sum;
  }
  float score(int row, int head, int position) const {
    float score = product(row, head, position) * 0.2f;
    if (c_.soft_cap != 0.0f) score = c_.soft_cap * tanh_of(score / c_.soft_cap);
    if (!c_.has_slopes) return score;
    const float slope = slopes_[static_cast<size_t>(head)];
    return score + slope * static_cast<float>(position - positions_[static_cast<size_t>(row)]);
  }
  /// What the tiles give, folded; before the result is rounded.
  std::vector<float> by_formula(int row, int head) const {
    const int slot = slots_[static_cast<size_t>(row)];
    float maximum = c_.has_sinks ? sinks_[static_cast<size_t>(head)] : -std::numeric_limits<float>::infinity();
    float sum = c_.has_sinks ? 1.0f : 0.0f;
    std::vector<float> all(static_cast<size_t>(columns()), 0.0f);
    for (int first = 0; first <= positions_[static_cast<size_t>(row)]; first += kTileTokens) {
      std::vector<int> seen;
      std::vector<float> scores, values(all.size(), 0.0f);
      for (int position = first; position < first + kTileTokens; ++position) {
        if (!sees(row, position)) continue;
        seen.push_back(position);
        scores.push_back(score(row, head, position));
      }
      if (seen.empty()) continue;
      const float of_tile = *std::ranges::max_element(scores);
      float weights = 0.0f;
      for (size_t i = 0; i < seen.size(); ++i) {
        const float weight = rounded(weight_of(scores[i] - of_tile));
        const int64_t value = place(slot, seen[i], head_map_[static_cast<size_t>(head)]);
        weights += weight;
        for (size_t k = 0; k < all.size(); ++k) {
          values[k] = std::fma(weight, get(this->values(), value + static_cast<int64_t>(k)), values[k]);
        }
      }
      const FoldFactors factors = fold_factors(maximum, of_tile);
      maximum = std::max(maximum, of_tile);
      sum = folded_sum(sum, weights, factors);
      for (size_t k = 0; k < all.size(); ++k) all[k] = folded_value(all[k], values[k], factors);
    }
    for (float& value : all) value /= sum;
    return all;
  }
  /// The same in doubles, of weights that are not rounded.
  std::vector<double> exact(int row, int head) const {
    double sum = c_.has_sinks ? std::exp(sinks_[static_cast<size_t>(head)]) : 0.0;
    std::vector<double> all(static_cast<size_t>(columns()), 0.0);
    for (int position = 0; position <= positions_[static_cast<size_t>(row)]; ++position) {
      if (!sees(row, position)) continue;
      const double weight = std::exp(score(row, head, position));
      const int64_t value = place(slots_[static_cast<size_t>(row)], position, head_map_[static_cast<size_t>(head)]);
      sum += weight;
      for (size_t k = 0; k < all.size(); ++k) all[k] += weight * get(values(), value + static_cast<int64_t>(k));
    }
    for (double& value : all) value /= sum;
    return all;
  }
};

TEST_P(Attend16, HasTheBitsOfItsFormulaNearTheDefinition) {
  const std::vector<std::byte> found = together(simt::Order::kUp, kRows16Threads / 2);
  const double near = c_.dtype == DType::kBFloat16 ? 0x1p-8 : 0x1p-11;  // of values up to 1
  for (int row = 0; row < static_cast<int>(slots_.size()); ++row) {
    for (int head = 0; head < heads(); ++head) {
      const bool is_padding = slots_[static_cast<size_t>(row)] < 0;
      const std::vector<float> wanted =
          is_padding ? std::vector<float>(static_cast<size_t>(columns()), 0.0f) : by_formula(row, head);
      const std::vector<double> values =
          is_padding ? std::vector<double>(wanted.begin(), wanted.end()) : exact(row, head);
      for (int i = 0; i < columns(); ++i) {
        const float value = get(found, (int64_t{row} * heads() + head) * columns() + i);
        const auto k = static_cast<size_t>(i);
        if (std::isnan(wanted[k]) && std::isnan(value)) continue;
        ASSERT_EQ(value, rounded(wanted[k])) << "row " << row << ", head " << head << ", column " << i;
        if (std::isfinite(values[k])) {
          ASSERT_NEAR(value, values[k], near);
        }
      }
    }
  }
}

std::string name_of(const testing::TestParamInfo<Case>& tested) { return tested.param.name; }

INSTANTIATE_TEST_SUITE_P(
    Kinds, AttendRows,
    testing::Values(
        Case{.name = "plain"}, Case{.name = "f16", .dtype = DType::kFloat16, .head_dim = 128},
        Case{.name = "f32", .dtype = DType::kFloat32, .head_dim = 36, .cache_heads = 1, .group = 3},
        Case{.name = "f32_plain", .dtype = DType::kFloat32}, Case{.name = "narrow", .head_dim = 8, .group = 1},
        Case{.name = "odd", .head_dim = 33}, Case{.name = "wide", .head_dim = 168, .cache_heads = 1},
        Case{.name = "wide_group", .head_dim = 16, .cache_heads = 1, .group = 18},
        Case{.name = "group_of_seven", .head_dim = 80, .cache_heads = 1, .group = 7},
        Case{.name = "window", .window = 50}, Case{.name = "pinned", .window = 30, .pinned = 5},
        Case{.name = "pinned_queries", .window = 30, .pinned = 70, .has_pinned_q = true},
        Case{.name = "ring", .window = 60, .turning = 3}, Case{.name = "soft_cap", .soft_cap = 2.0f},
        Case{.name = "f32_soft_cap", .dtype = DType::kFloat32, .window = 50, .soft_cap = 2.0f},
        Case{.name = "slopes", .has_slopes = true}, Case{.name = "sinks", .window = 70, .has_sinks = true},
        Case{.name = "infinities", .window = 90, .has_infinities = true},
        Case{.name = "latent", .head_dim = 72, .cache_heads = 1, .group = 18, .value_columns = 64},
        Case{.name = "latent_f16_plain",
             .dtype = DType::kFloat16,
             .head_dim = 31,
             .cache_heads = 1,
             .group = 5,
             .value_columns = 17},
        Case{.name = "latent_f32_plain",
             .dtype = DType::kFloat32,
             .head_dim = 36,
             .cache_heads = 1,
             .group = 5,
             .value_columns = 30},
        Case{.name = "latent_window", .head_dim = 24, .cache_heads = 1, .group = 3, .window = 50, .value_columns = 24},
        Case{.name = "latent_of_real_width", .head_dim = 576, .cache_heads = 1, .group = 2, .value_columns = 512}),
    name_of);
INSTANTIATE_TEST_SUITE_P(
    Kinds, Attend16,
    testing::Values(Case{.name = "plain"}, Case{.name = "f16", .dtype = DType::kFloat16, .head_dim = 40},
                    Case{.name = "wide", .head_dim = 168, .cache_heads = 1, .group = 1},
                    Case{.name = "pinned_queries", .head_dim = 16, .window = 30, .pinned = 5, .has_pinned_q = true},
                    Case{.name = "soft_cap", .head_dim = 16, .soft_cap = 2.0f},
                    Case{.name = "slopes", .head_dim = 16, .window = 90, .has_slopes = true},
                    Case{.name = "sinks", .head_dim = 16, .window = 70, .has_sinks = true},
                    Case{.name = "infinities", .head_dim = 16, .window = 90, .has_infinities = true},
                    Case{.name = "latent", .head_dim = 44, .cache_heads = 1, .group = 5, .value_columns = 37}),
    name_of);

}  // namespace
}  // namespace lockstep::cuda
