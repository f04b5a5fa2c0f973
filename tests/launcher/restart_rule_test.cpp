#include "launcher/batch/restart_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::launcher {
namespace {

using Next = RestartDecision::Next;
using ::testing::HasSubstr;

AttemptEnd lost(std::set<int> ranks = {}) { return {.code = 5, .lost_ranks = std::move(ranks)}; }
AttemptEnd code(int value) { return {.code = value}; }

TEST(RestartRule, StopsAtWhatIsDoneOrInterrupted) {
  RestartHistory history;
  EXPECT_EQ(decide_restart(code(0), 5, {}, history).next, Next::kStop);
  EXPECT_EQ(decide_restart(code(130), 5, {}, history).next, Next::kStop);
}

TEST(RestartRule, StartsAgainWhatWasLost) {
  for (const int value : {5, 6, 137, 143, 134}) {
    RestartHistory history;
    EXPECT_EQ(decide_restart(code(value), 0, {}, history).next, Next::kAgain) << value;
  }
}

TEST(RestartRule, StartsAgainWhatIsWrongOnlyAfterProgress) {
  for (const int value : {1, 2, 3, 4, 7}) {
    RestartHistory history;
    EXPECT_EQ(decide_restart(code(value), 1, {}, history).next, Next::kAgain) << value;
    EXPECT_EQ(decide_restart(code(value), 0, {}, history).next, Next::kStop) << value;
  }
}

TEST(RestartRule, HasALimitForAllAndOneForStartsWithoutProgress) {
  RestartHistory history;
  const RestartLimits limits{.restarts = 4, .stalled_restarts = 1};
  EXPECT_EQ(decide_restart(lost(), 0, limits, history).next, Next::kAgain);
  EXPECT_EQ(decide_restart(lost(), 3, limits, history).next, Next::kAgain);
  EXPECT_EQ(decide_restart(lost(), 0, limits, history).next, Next::kAgain);
  const RestartDecision stalled = decide_restart(lost(), 0, limits, history);
  EXPECT_EQ(stalled.next, Next::kStop);
  EXPECT_THAT(stalled.why, HasSubstr("2 starts in a row finished no row"));
  EXPECT_EQ(decide_restart(lost(), 3, limits, history).next, Next::kAgain);
  EXPECT_THAT(decide_restart(lost(), 3, limits, history).why, HasSubstr("--restarts"));
}

TEST(RestartRule, ShrinksWhenARankIsLostTwiceInARow) {
  const RestartLimits limits{.may_shrink = true};
  RestartHistory history;
  EXPECT_EQ(decide_restart(lost({1}), 3, limits, history).next, Next::kAgain);
  EXPECT_EQ(decide_restart(lost({2}), 3, limits, history).next, Next::kAgain);
  EXPECT_EQ(decide_restart(lost({0, 2}), 3, limits, history).next, Next::kShrink);
  EXPECT_EQ(decide_restart(lost({2}), 3, limits, history).next, Next::kAgain);  // the count restarts
  RestartHistory kept;
  EXPECT_EQ(decide_restart(lost({1}), 3, {}, kept).next, Next::kAgain);
  EXPECT_EQ(decide_restart(lost({1}), 3, {}, kept).next, Next::kAgain);
}

TEST(RestartRule, ShrinksWhenThereIsNoPlaceForAll) {
  AttemptEnd end{.code = 1, .started = false, .lacks_slots = true};
  RestartHistory history;
  EXPECT_EQ(decide_restart(end, 0, {.may_shrink = true}, history).next, Next::kShrink);
  EXPECT_EQ(decide_restart(end, 0, {}, history).next, Next::kStop);
}

}  // namespace
}  // namespace lockstep::launcher
