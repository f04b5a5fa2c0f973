#include "runtime/core/block_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>

#include "runtime/core/check.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Leaves = std::vector<float>;

/// The sum below the node that starts at `begin` and is `width` wide, as drawn in the header.
float sum_of_node(const Leaves& leaves, size_t begin, size_t width) {
  if (width == 1) return leaves[begin];
  const size_t middle = begin + width / 2;
  const float left = sum_of_node(leaves, begin, width / 2);
  return middle < leaves.size() ? left + sum_of_node(leaves, middle, width / 2) : left;
}

/// The steps of ranks: sum each root alone, exchange the roots, finish.
float sum_over_ranks(const Leaves& leaves, const BlockSplit& split) {
  Leaves roots;
  for (int rank = 0; rank < split.ranks(); ++rank) {
    for (const Range& root : split.roots_of(rank)) {
      const Leaves below(leaves.begin() + root.begin, leaves.begin() + root.end);
      roots.push_back(sum_of_node(below, 0, std::bit_ceil(below.size())));
    }
  }
  const TreeFinish plan = plan_finish(split);
  EXPECT_EQ(static_cast<size_t>(plan.roots()), roots.size());
  for (const TreeFinish::Step& step : plan.steps) {
    roots[static_cast<size_t>(step.dst)] += roots[static_cast<size_t>(step.src)];
  }
  return roots[static_cast<size_t>(plan.result)];
}

/// Numbers of many magnitudes, so that another order of additions gives another sum.
Leaves uneven_leaves(size_t count) {
  Leaves leaves;
  uint32_t state = 12345;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    leaves.push_back(static_cast<float>(static_cast<int32_t>(state)) * (i % 3 == 0 ? 1.0f : 0x1p-13f));
  }
  return leaves;
}

/// Calls `visit` for every way to give `leaves` leaves to `ranks` ranks, some perhaps without any.
void for_every_split(int64_t leaves, int ranks, std::vector<int64_t>& bounds,
                     const std::function<void(const BlockSplit&)>& visit) {
  if (static_cast<int>(bounds.size()) == ranks) {
    bounds.push_back(leaves);
    visit(BlockSplit{bounds});
    bounds.pop_back();
    return;
  }
  for (int64_t bound = bounds.back(); bound <= leaves; ++bound) {
    bounds.push_back(bound);
    for_every_split(leaves, ranks, bounds, visit);
    bounds.pop_back();
  }
}

void expect_same_sum(int64_t leaf_count, int ranks) {
  const Leaves leaves = uneven_leaves(static_cast<size_t>(leaf_count));
  const float alone = sum_of_node(leaves, 0, std::bit_ceil(leaves.size()));
  std::vector<int64_t> bounds{0};
  for_every_split(leaf_count, ranks, bounds, [&](const BlockSplit& split) {
    const float together = sum_over_ranks(leaves, split);
    ASSERT_EQ(std::bit_cast<uint32_t>(together), std::bit_cast<uint32_t>(alone))
        << leaf_count << " leaves, " << ranks << " ranks, first bounds " << split.bounds[1];
  });
}

/// Every division of up to 40 leaves between up to 4 ranks, of up to 16 between 5 and 6.
TEST(BlockTree, GivesTheSameSumToTheBitHoweverLeavesAreDivided) {
  for (int64_t leaves = 1; leaves <= 40; ++leaves) {
    for (int ranks = 1; ranks <= (leaves <= 16 ? 6 : 4); ++ranks) expect_same_sum(leaves, ranks);
  }
}

/// 17 to 40 leaves between 5 and 6 ranks have too many divisions to try all: 600 pseudo-random ones of each.
TEST(BlockTree, GivesTheSameSumForManyDivisionsOfManyLeavesBetweenManyRanks) {
  uint32_t state = 1;
  for (int64_t leaf_count = 17; leaf_count <= 40; ++leaf_count) {
    const Leaves leaves = uneven_leaves(static_cast<size_t>(leaf_count));
    const float alone = sum_of_node(leaves, 0, std::bit_ceil(leaves.size()));
    for (int trial = 0; trial < 600; ++trial) {
      BlockSplit split{{0}};
      for (int rank = 1; rank < 5 + trial % 2; ++rank) {
        state = state * 1664525u + 1013904223u;
        split.bounds.push_back(state / 65536 % static_cast<uint32_t>(leaf_count + 1));
      }
      split.bounds.push_back(leaf_count);
      std::sort(split.bounds.begin(), split.bounds.end());
      ASSERT_EQ(std::bit_cast<uint32_t>(sum_over_ranks(leaves, split)), std::bit_cast<uint32_t>(alone)) << trial;
    }
  }
}

TEST(BlockTree, CheckNoticesAnotherOrder) {
  const Leaves leaves = uneven_leaves(40);
  float in_sequence = 0.0f;
  for (float leaf : leaves) in_sequence += leaf;
  EXPECT_NE(in_sequence, sum_over_ranks(leaves, BlockSplit{{0, 17, 40}}));
}

TEST(BlockTree, IsAsDrawnInTheHeader) {
  const BlockSplit split{{0, 3, 5}};
  EXPECT_THAT(split.roots_of(0), ElementsAre(Range{0, 2}, Range{2, 3}));
  EXPECT_THAT(split.roots_of(1), ElementsAre(Range{3, 4}, Range{4, 5}));
  const TreeFinish plan = plan_finish(split);
  EXPECT_THAT(plan.first_root, ElementsAre(0, 2, 4));
  // r1 + r2 first, then r0 + that, then + r3.
  EXPECT_THAT(plan.steps, ElementsAre(TreeFinish::Step{1, 2}, TreeFinish::Step{0, 1}, TreeFinish::Step{0, 3}));
  EXPECT_EQ(plan.result, 0);
}

TEST(BlockTree, GivesOneRootToARankThatOwnsEverythingAndNoneToOneThatOwnsNothing) {
  const BlockSplit split{{0, 0, 7, 7}};
  EXPECT_THAT(split.roots_of(0), IsEmpty());
  EXPECT_THAT(split.roots_of(1), ElementsAre(Range{0, 7}));
  EXPECT_THAT(split.roots_of(2), IsEmpty());
  EXPECT_THAT(plan_finish(split).steps, IsEmpty());
}

TEST(BlockTree, RefusesARangeOutsideTheLeaves) {
  EXPECT_THROW(maximal_subtrees({0, 6}, 5), CheckFailure);
  EXPECT_THROW(maximal_subtrees({3, 2}, 5), CheckFailure);
}

TEST(Range, IsHalfOpenAndPrintsItself) {
  const Range range{3, 7};
  EXPECT_EQ(range.size(), 4);
  EXPECT_TRUE(range.contains(3));
  EXPECT_FALSE(range.contains(7));
  EXPECT_EQ(to_string(range), "3:7");
}

}  // namespace
}  // namespace lockstep
