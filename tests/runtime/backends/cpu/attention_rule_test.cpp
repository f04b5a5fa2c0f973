// Tests of attention's masks beyond the causal one, and of its scores.
#include <gtest/gtest.h>

#include <limits>

#include "tests/runtime/backends/cpu/attention_fixture.h"

namespace lockstep::cpu {
namespace {

class AttentionRules : public OnEveryMachine {
 protected:
  /// Every token of a prompt in one chunk against double precision.
  void expect_exact(const AttentionSetup& setup) {
    const AttentionFixture attention(kernels(), dtype(), setup);
    AttentionRows rows;
    rows.add(1, 0, static_cast<int32_t>(setup.tokens));
    const std::vector<float> found = attention.run(rows);
    for (size_t row = 0; row < rows.slot.size(); row += row % 64 < 62 && row % 64 > 1 ? 13 : 1) {
      ASSERT_LT(attention.error_of(found, rows, row), attention.tolerance()) << "position " << row;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(EveryIsa, AttentionRules, every_isa_and_dtype(), name_of_isa_and_dtype);

/// Everything at once, on a cache that is not a ring.
constexpr AttentionSetup kEverything{
    .tokens = 260, .window = 100, .pinned = 5, .soft_cap = 2.5f, .has_sinks = true, .has_slopes = true};

TEST_P(AttentionRules, ShowExactlyTheLastKeysOfAWindow) {
  for (int64_t window : {1, 2, 63, 64, 65, 100, 199, 200, 1000}) {
    SCOPED_TRACE(window);
    expect_exact({.window = window});
    expect_exact({.window = window, .is_flat = true});
  }
}

TEST_P(AttentionRules, KeepPinnedKeysInSightOfTheirOwnQuery) {
  for (int64_t pinned : {1, 4, 64, 70}) {
    SCOPED_TRACE(pinned);
    expect_exact({.window = 50, .pinned = pinned});
    expect_exact({.window = 50, .pinned = pinned, .is_flat = true});
  }
}

TEST_P(AttentionRules, CapScores) { expect_exact({.soft_cap = 0.75f}); }
TEST_P(AttentionRules, AddSlopesTimesTheDistance) { expect_exact({.has_slopes = true}); }
TEST_P(AttentionRules, DropTheShareOfSinks) { expect_exact({.has_sinks = true}); }
TEST_P(AttentionRules, WorkTogether) { expect_exact(kEverything); }

TEST_P(AttentionRules, GiveATokenTheSameBitsInEveryChunkAndBatch) {
  const AttentionFixture attention(kernels(), dtype(), kEverything);
  AttentionRows prompt;
  prompt.add(0, 0, 250);
  const std::vector<float> whole = attention.run(prompt);
  for (int32_t at : {0, 4, 5, 63, 64, 99, 100, 104, 105, 163, 164, 249}) {
    const std::vector<float> expected = attention.row_of(whole, at);
    EXPECT_TRUE(same_bits(attention.run_alone(0, at), expected)) << "alone at " << at;
    EXPECT_TRUE(same_bits(attention.row_of(attention.run({{1, -1, 0, 0}, {190, 0, at, 5}}), 2), expected))
        << "in a batch at " << at;
  }
  AttentionRows chunk;
  chunk.add(0, 111, 240);
  const std::vector<float> found = attention.run(chunk, 3);
  for (int32_t at = 111; at < 240; ++at) {
    EXPECT_TRUE(same_bits(attention.row_of(found, at - 111), attention.row_of(whole, at))) << "in a chunk at " << at;
  }
}

TEST_P(AttentionRules, NeverLetWhatLiesBeforeTheWindowIn) {
  AttentionFixture attention(kernels(), dtype(), kEverything);
  AttentionRows rows;
  rows.add(0, 180, 220);  // the first sees positions from 81 on
  const std::vector<float> before = attention.run(rows);
  for (int64_t i = 5 * attention.token_size(); i < 81 * attention.token_size(); ++i) {
    attention.k[i] = std::numeric_limits<float>::quiet_NaN();
    attention.v[i] = std::numeric_limits<float>::infinity();
  }
  attention.append(0, {5, 81});
  EXPECT_TRUE(same_bits(attention.run(rows), before));
}

/// A ring that is as small as the window, the pinned rows and the chunk allow.
struct RingCase {
  int64_t window, pinned, chunk;
};

TEST_P(AttentionRules, GiveARingTheBitsOfACacheThatForgetsNothing) {
  for (const RingCase& ring : {RingCase{50, 0, 1}, {50, 0, 64}, {64, 3, 7}, {1, 0, 1}, {130, 64, 20}, {20, 70, 90}}) {
    SCOPED_TRACE(testing::Message() << "window " << ring.window << " pinned " << ring.pinned << " chunk "
                                    << ring.chunk);
    AttentionSetup setup{.tokens = 700, .head_dim = 8, .window = ring.window, .pinned = ring.pinned};
    const AttentionFixture all(kernels(), dtype(), setup);
    setup.ring_rows = ring.pinned + ring.window - 1 + ring.chunk;
    AttentionFixture turning(kernels(), dtype(), setup);
    for (int64_t begin = 0; begin < setup.tokens; begin += ring.chunk) {
      const int64_t end = std::min(begin + ring.chunk, setup.tokens);
      turning.append(1, {begin, end});
      AttentionRows rows;
      rows.add(1, static_cast<int32_t>(begin), static_cast<int32_t>(end));
      ASSERT_EQ(turning.run(rows), all.run(rows)) << "from position " << begin;
    }
  }
}

TEST_P(AttentionRules, LeaveTheWindowRightWhenDraftedTokensAreRejectedAtEveryLap) {
  constexpr int64_t kDrafts = 4;
  AttentionSetup setup{.tokens = 400, .head_dim = 8, .window = 30, .pinned = 2};
  const AttentionFixture all(kernels(), dtype(), setup);
  setup.ring_rows = 2 + 30 - 1 + 1 + kDrafts;
  AttentionFixture turning(kernels(), dtype(), setup);
  const std::vector<float> k = turning.k, v = turning.v;
  for (int32_t at = 0; at + kDrafts < setup.tokens; ++at) {
    // The drafts differ from the later tokens, and no query reads them.
    turning.k.assign(k.size(), 0.5f);
    turning.v.assign(v.size(), 99.0f);
    turning.append(0, {at + 1, at + 1 + kDrafts});
    turning.k = k;
    turning.v = v;
    turning.append(0, {at, at + 1});
    ASSERT_EQ(turning.run_alone(0, at), all.run_alone(0, at)) << at;
  }
}

int64_t tiles_scored = 0;
ProductFunction real_score = nullptr;
void counting_score(const Product& product) {
  ++tiles_scored;
  real_score(product);
}

/// Tiles of keys that one token at `position` reads with all its heads of one cache head.
int64_t tiles_of(const AttentionFixture& attention, int32_t position) {
  AttentionTask task = attention.task(1);
  real_score = std::exchange(task.score, counting_score);
  tiles_scored = 0;
  attention.run(task, {{0}, {position}});
  return tiles_scored / AttentionFixture::kCacheHeads;
}

TEST(AttentionCost, FollowsTheWindowNotTheContext) {
  const Kernels& kernels = kernels_for(best_isa());
  const AttentionFixture full(kernels, DType::kFloat32, {.tokens = 3000});
  const AttentionFixture window(kernels, DType::kFloat32, {.tokens = 3000, .window = 100});
  const AttentionFixture pinned(kernels, DType::kFloat32, {.tokens = 3000, .window = 100, .pinned = 4});
  EXPECT_EQ(tiles_of(full, 2900), 2900 / 64 + 1);
  EXPECT_EQ(tiles_of(window, 50), 1);
  for (int32_t position = 100; position < 3000; position += 37) {
    const int64_t of_window = position / 64 - (position - 99) / 64 + 1;
    EXPECT_EQ(tiles_of(window, position), of_window) << position;
    EXPECT_EQ(tiles_of(pinned, position), of_window + 1) << position;
  }
}

TEST(AttentionCost, SharesATileAmongTheRowsOfABlock) {
  const Kernels& kernels = kernels_for(best_isa());
  const AttentionFixture attention(kernels, DType::kFloat32, {.tokens = 700, .window = 300});
  AttentionTask task = attention.task(6);
  real_score = std::exchange(task.score, counting_score);
  AttentionRows rows;
  rows.add(0, 610, 616);
  tiles_scored = 0;
  attention.run(task, rows);
  // 18 and 12 rows of the two cache heads, at most kTileRows at a time, over the tiles of positions 311 to 615.
  EXPECT_EQ(tiles_scored, (18 / kTileRows + 12 / kTileRows) * (615 / 64 - 311 / 64 + 1));
}

}  // namespace
}  // namespace lockstep::cpu
