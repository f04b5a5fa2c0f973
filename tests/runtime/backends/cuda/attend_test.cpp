// Attention and activations of the CUDA backend on the CPU, against doubles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "runtime/backends/cuda/kernels/attention.h"
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/core/dtype.h"
#include "tests/cuda_stand_in/simt.h"

namespace lockstep::cuda {
namespace {

std::vector<float> random_floats(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

struct Attention {
  const char* name;
  int window = 0;
  int pinned = 0;
  int turning = 0;  // tiles of a ring
  float soft_cap = 0.0f;
  bool has_slopes = false;
  bool has_sinks = false;
  bool has_pinned_q = false;
  bool is_latent = false;  // values are the first kLatentColumns columns of their keys

  friend void PrintTo(const Attention& shape, std::ostream* out) { *out << shape.name; }
};

constexpr int kSlots = 2;
constexpr int kHeads = 4;
constexpr int kCacheHeads = 2;
constexpr int kHeadDim = 40;
constexpr int kLatentColumns = 37;
constexpr int kTiles = 5;
constexpr float kScale = 0.2f;

class Attend : public testing::TestWithParam<Attention> {
 protected:
  Attend() {
    const Attention& shape = GetParam();
    fixed_ = shape.turning > 0 ? (shape.pinned + kTileTokens - 1) / kTileTokens : kTiles;
    tiles_ = fixed_ + shape.turning;
    const auto elements = static_cast<size_t>(kSlots * tiles_ * kTileStride);
    keys_.assign(elements, std::nanf(""));
    values_.assign(elements, std::nanf(""));
  }

  int64_t place(int slot, int position, int head, int i) const {
    int tile = position / kTileTokens;
    if (GetParam().turning > 0 && tile >= fixed_) tile = fixed_ + (tile - fixed_) % GetParam().turning;
    return (static_cast<int64_t>(slot) * tiles_ + tile) * kTileStride + head * kTileTokens * kHeadDim +
           position % kTileTokens * kHeadDim + i;
  }
  static int columns() { return GetParam().is_latent ? kLatentColumns : kHeadDim; }  // of a result
  /// What a token has of its key (0) or value (1).
  static float element(int which, int slot, int position, int head, int i) {
    if (GetParam().is_latent) which = 0;
    return std::sin(static_cast<float>(which * 7919 + slot * 104729 + position * 31 + head * 1009 + i * 17));
  }
  /// Appends the positions up to `last`.
  void fill(int slot, int last) {
    for (int position = 0; position <= last; ++position) {
      for (int head = 0; head < kCacheHeads; ++head) {
        for (int i = 0; i < kHeadDim; ++i) {
          keys_[static_cast<size_t>(place(slot, position, head, i))] = element(0, slot, position, head, i);
          values_[static_cast<size_t>(place(slot, position, head, i))] = element(1, slot, position, head, i);
        }
      }
    }
  }
  std::vector<float> run(const std::vector<int32_t>& slots, const std::vector<int32_t>& positions,
                         const std::vector<float>& q, const std::vector<float>& pinned_q, simt::Order order) {
    const Attention& shape = GetParam();
    const size_t results = slots.size() * kHeads * static_cast<size_t>(columns());
    std::vector<float> y(results, std::nanf(""));
    const AttendParameters p{.q = q.data(),
                             .pinned_q = shape.has_pinned_q ? pinned_q.data() : nullptr,
                             .keys = keys_.data(),
                             .values = shape.is_latent ? keys_.data() : values_.data(),
                             .slot = slots.data(),
                             .position = positions.data(),
                             .head_map = head_map_.data(),
                             .slopes = shape.has_slopes ? slopes_.data() : nullptr,
                             .sinks = shape.has_sinks ? sinks_.data() : nullptr,
                             .y = y.data(),
                             .q_stride = kHeads * kHeadDim,
                             .pinned_q_stride = kHeads * kHeadDim,
                             .y_stride = int64_t{kHeads} * columns(),
                             .tiles = {tiles_ * kTileStride, kTileStride, fixed_, shape.turning},
                             .rows = {nullptr, static_cast<int32_t>(slots.size())},
                             .heads = kHeads,
                             .head_dim = kHeadDim,
                             .value_columns = columns(),
                             .window = shape.window,
                             .pinned = shape.pinned,
                             .scale = kScale,
                             .soft_cap = shape.soft_cap,
                             .is_float_per_head = 1};
    simt::Grid grid{.blocks = static_cast<int>(slots.size()) * kHeads,
                    .threads = kAttendThreads,
                    .shared_bytes = 2 * kTileTokens * sizeof(float),
                    .order = order};
    EXPECT_EQ(simt::run(*simt::find_kernel("attend_f32"), grid, &p), "");
    // The same, with tiles side by side.
    const size_t places = slots.size() * kHeads * kTiles;
    std::vector<float> maxima(places, std::nanf("")), sums(maxima),
        values(places * static_cast<size_t>(columns()), std::nanf(""));
    std::vector<float> folded(results, std::nanf(""));
    std::vector<uint32_t> arrivals(slots.size() * kCacheHeads, 0);
    const std::vector<int32_t> heads = {0, 1, 2, 3}, first_heads = {0, 2, 4};
    AttendTilesParameters split{
        .attend = p,
        .of_rows = {maxima.data(), sums.data(), values.data(), kTiles},
        .heads = heads.data(),
        .first_heads = first_heads.data(),
        .arrivals = arrivals.data(),
        .groups = kCacheHeads,
        .shared_bytes = static_cast<int32_t>(attend_tiles_bytes(kHeadDim, shape.is_latent ? 1 : 2))};
    split.attend.y = folded.data();
    grid.blocks = 3;
    grid.shared_bytes = static_cast<size_t>(split.shared_bytes);
    EXPECT_EQ(simt::run(*simt::find_kernel("attend_tiles_f32"), grid, &split), "");
    EXPECT_EQ(std::memcmp(folded.data(), y.data(), y.size() * sizeof(float)), 0);
    EXPECT_THAT(arrivals, testing::Each(0u));
    // The same, folded by a launch of its own.
    std::vector<float> apart(results, std::nanf(""));
    split.attend.y = apart.data();
    split.arrivals = nullptr;
    EXPECT_EQ(simt::run(*simt::find_kernel("attend_tiles_f32"), grid, &split), "");
    grid.blocks = static_cast<int>(slots.size()) * kHeads;
    grid.shared_bytes = kAttendFoldSharedBytes;
    EXPECT_EQ(simt::run(*simt::find_kernel("attend_fold_f32"), grid, &split), "");
    EXPECT_EQ(std::memcmp(apart.data(), y.data(), y.size() * sizeof(float)), 0);
    return y;
  }
  double expected(int slot, int position, int head, int column, const float* q, const float* pinned_q) const {
    const Attention& shape = GetParam();
    const int cache_head = head_map_[static_cast<size_t>(head)];
    std::vector<double> scores;
    std::vector<int> seen;
    for (int at = 0; at <= position; ++at) {
      if (shape.window > 0 && at <= position - shape.window && at >= shape.pinned) continue;
      const float* by = at < shape.pinned && shape.has_pinned_q ? pinned_q : q;
      double score = 0;
      for (int i = 0; i < kHeadDim; ++i) score += static_cast<double>(by[i]) * element(0, slot, at, cache_head, i);
      score *= kScale;
      if (shape.soft_cap != 0.0f) score = shape.soft_cap * std::tanh(score / shape.soft_cap);
      if (shape.has_slopes) score += slopes_[static_cast<size_t>(head)] * (at - position);
      scores.push_back(score);
      seen.push_back(at);
    }
    double most = shape.has_sinks ? sinks_[static_cast<size_t>(head)] : -std::numeric_limits<double>::infinity();
    for (const double score : scores) most = std::max(most, score);
    double sum = shape.has_sinks ? std::exp(sinks_[static_cast<size_t>(head)] - most) : 0;
    double result = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      const double weight = std::exp(scores[i] - most);
      sum += weight;
      result += weight * element(1, slot, seen[i], cache_head, column);
    }
    return result / sum;
  }

  static constexpr int64_t kTileStride = kCacheHeads * kTileTokens * kHeadDim;
  int fixed_ = 0;
  int tiles_ = 0;
  std::vector<float> keys_, values_;
  const std::vector<int32_t> head_map_ = {0, 0, 1, 1};
  const std::vector<float> slopes_ = {0.5f, 0.25f, 0.125f, 0.0625f};
  const std::vector<float> sinks_ = {1.0f, -2.0f, 3.0f, 0.0f};
};

TEST_P(Attend, WeighsWhatEachRowSees) {
  fill(0, 270);
  fill(1, 130);
  const std::vector<int32_t> slots = {0, 1, -1, 0, 1};
  const std::vector<int32_t> positions = {270, 63, 9, 269, 128};
  const size_t count = slots.size() * kHeads * kHeadDim;
  const std::vector<float> q = random_floats(count, 1);
  const std::vector<float> pinned_q = random_floats(count, 2);
  const std::vector<float> up = run(slots, positions, q, pinned_q, simt::Order::kUp);
  for (size_t row = 0; row < slots.size(); ++row) {
    if (GetParam().turning > 0 && row != 0 && row != 4) continue;  // a ring has lost what others see
    for (int head = 0; head < kHeads; ++head) {
      const size_t query = row * kHeads + static_cast<size_t>(head), at = query * kHeadDim;
      for (int i = 0; i < columns(); ++i) {
        const double value =
            slots[row] < 0 ? 0 : expected(slots[row], positions[row], head, i, q.data() + at, pinned_q.data() + at);
        ASSERT_NEAR(up[query * static_cast<size_t>(columns()) + static_cast<size_t>(i)], value, 4e-6)
            << row << " " << head << " " << i;
      }
    }
  }
  for (const simt::Order order : {simt::Order::kDown, simt::Order::kShuffled}) {
    EXPECT_EQ(std::memcmp(up.data(), run(slots, positions, q, pinned_q, order).data(), up.size() * 4), 0);
  }
  // A row alone.
  const std::vector<float> own(q.begin(), q.begin() + kHeads * kHeadDim);
  const std::vector<float> own_pinned(pinned_q.begin(), pinned_q.begin() + kHeads * kHeadDim);
  const std::vector<float> alone = run({0}, {270}, own, own_pinned, simt::Order::kUp);
  EXPECT_EQ(std::memcmp(up.data(), alone.data(), alone.size() * 4), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Attend,
    testing::Values(Attention{.name = "plain"}, Attention{.name = "window", .window = 100},
                    Attention{.name = "pinned", .window = 70, .pinned = 5, .has_pinned_q = true},
                    Attention{.name = "ring", .window = 60, .turning = 2},
                    Attention{.name = "pinned ring", .window = 60, .pinned = 4, .turning = 2, .has_pinned_q = true},
                    Attention{.name = "soft cap", .soft_cap = 2.0f}, Attention{.name = "slopes", .has_slopes = true},
                    Attention{.name = "sinks", .window = 90, .has_sinks = true},
                    Attention{.name = "latent", .is_latent = true},
                    Attention{.name = "latent window", .window = 100, .is_latent = true}),
    [](const auto& tested) {
      std::string name = tested.param.name;
      std::replace(name.begin(), name.end(), ' ', '_');
      return name;
    });

class AttendFold : public testing::TestWithParam<simt::Order> {};

TEST_P(AttendFold, AddsTilesInOrderHoweverManyThereAre) {
  for (const int tiles : {1, 32, 33, 70}) {
    const auto places = static_cast<size_t>(2 * tiles);  // of two heads
    std::vector<float> maxima = random_floats(places, 1);
    const std::vector<float> sums = random_floats(places, 2), values = random_floats(places * kHeadDim, 3);
    if (tiles > 1) maxima[0] = -std::numeric_limits<float>::infinity();  // a tile of which nothing is seen
    const std::vector<int32_t> slot = {0}, position = {tiles * kTileTokens - 1};
    std::vector<float> y(2 * kHeadDim, std::nanf(""));
    AttendTilesParameters p{};
    p.attend.slot = slot.data();
    p.attend.position = position.data();
    p.attend.y = y.data();
    p.attend.y_stride = 2 * kHeadDim;
    p.attend.rows = {nullptr, 1};
    p.attend.heads = 2;
    p.attend.head_dim = kHeadDim;
    p.attend.value_columns = kHeadDim;
    p.of_rows = {maxima.data(), const_cast<float*>(sums.data()), const_cast<float*>(values.data()), tiles};
    const simt::Grid grid{
        .blocks = 2, .threads = kAttendThreads, .shared_bytes = kAttendFoldSharedBytes, .order = GetParam()};
    ASSERT_EQ(simt::run(*simt::find_kernel("attend_fold_f32"), grid, &p), "");
    for (int head = 0; head < 2; ++head) {
      float maximum = -std::numeric_limits<float>::infinity(), sum = 0.0f;
      std::vector<float> all(kHeadDim, 0.0f);
      for (int tile = 0; tile < tiles; ++tile) {
        const auto place = static_cast<size_t>(head * tiles + tile);
        const FoldFactors factors = fold_factors(maximum, maxima[place]);
        maximum = larger(maximum, maxima[place]);
        sum = folded_sum(sum, sums[place], factors);
        for (size_t i = 0; i < kHeadDim; ++i) all[i] = folded_value(all[i], values[place * kHeadDim + i], factors);
      }
      for (size_t i = 0; i < kHeadDim; ++i)
        ASSERT_EQ(y[static_cast<size_t>(head) * kHeadDim + i], all[i] / sum) << tiles;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InThreeOrders, AttendFold,
                         testing::Values(simt::Order::kUp, simt::Order::kDown, simt::Order::kShuffled));

TEST(Gate, ActivatesAndMultiplies) {
  std::vector<float> gate = random_floats(600, 5);
  for (float& value : gate) value *= 6.0f;
  const std::vector<float> edges = {0.0f, -100.0f, 100.0f, -0.0f, 20.0f, -20.0f};
  std::copy(edges.begin(), edges.end(), gate.begin());
  const std::vector<float> up = random_floats(600, 6);
  for (const ActivationKind kind : {kSilu, kGelu, kGeluTanh, kRelu}) {
    std::vector<float> y(600, std::nanf(""));
    const MapParameters p{gate.data(),  up.data(), y.data(), 200,      200,  200,
                          {nullptr, 3}, 200,       200,      kMapGate, kind, 0.0f};
    ASSERT_EQ(simt::run(*simt::find_kernel("map_f32"), {.blocks = 3, .threads = kMapThreads}, &p), "");
    for (size_t i = 0; i < y.size(); ++i) {
      const double x = gate[i];
      double value = x > 0 ? x : 0;
      if (kind == kSilu) value = x / (1 + std::exp(-x));
      if (kind == kGelu) value = x / 2 * std::erfc(-x / std::sqrt(2.0));
      if (kind == kGeluTanh) {
        value = x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
      }
      value *= up[i];
      ASSERT_NEAR(y[i], value, 1e-6 * std::max(1.0, std::abs(value))) << x << " " << kind;
    }
  }
}

}  // namespace
}  // namespace lockstep::cuda
