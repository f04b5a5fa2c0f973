#include "actors/prefix_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace lockstep::actors {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using Ids = std::vector<int32_t>;

TEST(PrefixTree, TellsHowMuchOfAPromptEverySlotHolds) {
  PrefixTree tree(4);
  tree.set(0, Ids{1, 2, 3, 4, 5});
  tree.set(1, Ids{1, 2, 3, 9});
  tree.set(2, Ids{1, 2, 3, 4});
  EXPECT_THAT(tree.common(Ids{1, 2, 3, 4, 5, 6}), ElementsAre(5, 3, 4, 0));
  EXPECT_THAT(tree.common(Ids{1, 2}), ElementsAre(2, 2, 2, 0));
  EXPECT_THAT(tree.common(Ids{7}), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(tree.common(Ids{}), ElementsAre(0, 0, 0, 0));
}

TEST(PrefixTree, FollowsAHistoryTokenByToken) {
  PrefixTree tree(3);
  tree.set(0, Ids{1, 2, 3, 4});
  for (const int32_t id : {1, 2, 3}) tree.append(1, id);  // along slot 0's
  tree.append(1, 8);                                      // and away from it
  tree.append(1, 9);
  EXPECT_THAT(tree.common(Ids{1, 2, 3, 8, 9}), ElementsAre(3, 5, 0));
  tree.append(0, 5);
  EXPECT_THAT(tree.common(Ids{1, 2, 3, 4, 5}), ElementsAre(5, 3, 0));
}

TEST(PrefixTree, NamesTheSlotsThatHoldAWholeHistory) {
  PrefixTree tree(4);
  tree.set(0, Ids{1, 2});
  tree.set(1, Ids{1, 2, 3});
  tree.set(2, Ids{1, 2});
  tree.set(3, Ids{1, 5});
  EXPECT_THAT(tree.extensions(0), UnorderedElementsAre(1, 2));
  EXPECT_THAT(tree.extensions(1), IsEmpty());
  tree.set(1, {});
  EXPECT_THAT(tree.extensions(2), UnorderedElementsAre(0));
  EXPECT_THAT(tree.extensions(1), IsEmpty());  // it has no history
}

TEST(PrefixTree, AgreesWithAComparisonOfWholeHistories) {
  std::mt19937 random(11);
  const auto below = [&](size_t end) { return static_cast<size_t>(random() % end); };
  constexpr size_t kSlots = 7;
  PrefixTree tree(kSlots);
  std::vector<Ids> histories(kSlots);
  for (int round = 0; round < 6000; ++round) {
    const size_t slot = below(kSlots);
    Ids& ids = histories[slot];
    switch (below(4)) {
      case 0: {  // continues as another slot, up to a place by chance
        const Ids& other = histories[below(kSlots)];
        ids = Ids(other.begin(), other.begin() + static_cast<ptrdiff_t>(below(other.size() + 1)));
        tree.set(slot, ids);
        break;
      }
      case 1:
        if (below(8) == 0) ids.clear();
        tree.set(slot, ids);
        break;
      default: ids.push_back(static_cast<int32_t>(below(3))); tree.append(slot, ids.back());
    }
    Ids asked = histories[below(kSlots)];
    if (below(2) == 0) asked.push_back(static_cast<int32_t>(below(3)));
    const std::vector<int64_t> common = tree.common(asked);
    const std::vector<size_t> longer = tree.extensions(slot);
    for (size_t other = 0; other < kSlots; ++other) {
      ASSERT_EQ(common[other], std::ranges::mismatch(histories[other], asked).in1 - histories[other].begin());
      const bool begins_so = std::ranges::mismatch(ids, histories[other]).in1 == ids.end();
      ASSERT_EQ(std::ranges::count(longer, other), begins_so && !ids.empty() && other != slot ? 1 : 0);
    }
  }
}

}  // namespace
}  // namespace lockstep::actors
