#include "launcher/process/restart_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
using Next = RestartDecision::Next;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr RestartLimits kLimits{.in_all = RestartLimit{10, "--restarts"}, .in_a_row = {2, "--stalled-restarts"}};

EndedStart stalled(EndCause cause = EndCause::kLost) { return {.cause = cause}; }
EndedStart progressed(EndCause cause = EndCause::kLost) {
  return {.cause = cause, .has_progressed = true, .is_proven = true};
}
EndedStart lost(std::set<int> ranks) {
  return {.cause = EndCause::kLost, .lost_ranks = std::move(ranks), .has_progressed = true, .is_proven = true};
}

TEST(RestartRule, DecidesByTheCauseAndTheProgress) {
  struct Row {
    EndCause cause;
    Next with_progress, without;
  };
  for (const Row& row :
       {Row{EndCause::kDone, Next::kStop, Next::kStop}, Row{EndCause::kInterrupted, Next::kStop, Next::kStop},
        Row{EndCause::kLost, Next::kAgain, Next::kAgain}, Row{EndCause::kOwn, Next::kAgain, Next::kStop},
        Row{EndCause::kNotStarted, Next::kAgain, Next::kStop}}) {
    EXPECT_EQ(RestartRule(kLimits).decide(progressed(row.cause)).next, row.with_progress) << int(row.cause);
    EXPECT_EQ(RestartRule(kLimits).decide(stalled(row.cause)).next, row.without) << int(row.cause);
  }
}

TEST(RestartRule, RepeatsWhatHasWorkedBeforeWhateverEndedIt) {
  RestartRule rule(kLimits);
  EXPECT_EQ(rule.decide({.cause = EndCause::kOwn, .is_proven = true}).next, Next::kAgain);
  EXPECT_EQ(rule.decide({.cause = EndCause::kOwn, .is_proven = false}).next, Next::kStop);
}

TEST(RestartRule, HasALimitForAllAndOneForThoseInARow) {
  RestartRule rule({.in_all = RestartLimit{4, "--restarts"}, .in_a_row = {1, "--stalled-restarts"}});
  EXPECT_EQ(rule.decide(stalled()).next, Next::kAgain);
  EXPECT_EQ(rule.decide(progressed()).next, Next::kAgain);
  EXPECT_EQ(rule.decide(stalled()).next, Next::kAgain);
  const RestartDecision in_a_row = rule.decide(stalled());
  EXPECT_EQ(in_a_row.next, Next::kStop);
  EXPECT_THAT(in_a_row.why, HasSubstr("1 times in a row without progress, as often as --stalled-restarts allows"));
  EXPECT_EQ(rule.restarts(), 3);
  EXPECT_EQ(rule.decide(progressed()).next, Next::kAgain);
  EXPECT_THAT(rule.decide(progressed()).why, HasSubstr("--restarts"));
}

TEST(RestartRule, MayCountTheRestartAfterProgressToo) {
  RestartRule rule({.in_a_row = {1, "--max-restarts"}, .counted = CountedRestarts::kAll});
  for (int i = 0; i < 100; ++i) ASSERT_EQ(rule.decide(progressed()).next, Next::kAgain) << i;
  EXPECT_EQ(rule.in_a_row(), 1);
  EXPECT_EQ(rule.decide(stalled()).next, Next::kStop);
}

TEST(RestartRule, DoublesThePauseUpToTheLongest) {
  RestartLimits limits = kLimits;
  limits.in_a_row.most = 6;
  limits.pauses = {.from = 0, .first = 1s, .longest = 5s};
  RestartRule early(limits);
  limits.pauses = {.from = 2, .first = 1s, .longest = 5s};
  RestartRule late(limits);
  std::vector<Duration> early_pauses = {early.decide(progressed()).pause},
                        late_pauses = {late.decide(progressed()).pause};
  for (int i = 0; i < 5; ++i) {
    early_pauses.push_back(early.decide(stalled()).pause);
    late_pauses.push_back(late.decide(stalled()).pause);
  }
  EXPECT_THAT(early_pauses, ElementsAre(1s, 2s, 4s, 5s, 5s, 5s));
  EXPECT_THAT(late_pauses, ElementsAre(0s, 0s, 1s, 2s, 4s, 5s));
  EXPECT_EQ(early.decide(progressed()).pause, 1s);
}

TEST(RestartRule, HasNoPauseWhereTheFirstIsNone) {
  RestartLimits limits = kLimits;
  limits.in_a_row.most = 1 << 30;
  limits.in_all.reset();
  limits.pauses.first = 0s;
  RestartRule rule(limits);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(rule.decide(stalled()).pause, 0s);
}

TEST(RestartRule, ShrinksWhenARankIsLostTwiceInARow) {
  RestartLimits limits = kLimits;
  limits.shrinking = Shrinking::kLostTwice;
  RestartRule rule(limits);
  EXPECT_EQ(rule.decide(lost({1})).next, Next::kAgain);
  EXPECT_EQ(rule.decide(lost({2})).next, Next::kAgain);
  EXPECT_EQ(rule.decide(lost({0, 2})).next, Next::kShrink);
  EXPECT_EQ(rule.decide(lost({2})).next, Next::kAgain);  // the count restarts
  RestartRule same(kLimits);
  EXPECT_EQ(same.decide(lost({1})).next, Next::kAgain);
  EXPECT_EQ(same.decide(lost({1})).next, Next::kAgain);
}

TEST(RestartRule, TakesFewerRanksForAFirstStart) {
  RestartLimits limits = kLimits;
  limits.shrinking = Shrinking::kLostTwice;
  limits.pauses.first = 1s;
  RestartRule rule(limits);
  const EndedStart end{.cause = EndCause::kLost, .lost_ranks = {1}};
  EXPECT_EQ(rule.decide(end).pause, 2s);
  const RestartDecision shrunk = rule.decide(end);
  EXPECT_EQ(shrunk.next, Next::kShrink);
  EXPECT_EQ(shrunk.pause, 1s);
  EXPECT_EQ(rule.in_a_row(), 0);
}

TEST(RestartRule, ShrinksWhenThereIsNoPlaceForAll) {
  const EndedStart end{.cause = EndCause::kNotStarted, .lacks_slots = true};
  RestartLimits limits = kLimits;
  limits.shrinking = Shrinking::kLostTwice;
  EXPECT_EQ(RestartRule(limits).decide(end).next, Next::kShrink);
  EXPECT_EQ(RestartRule(kLimits).decide(end).next, Next::kStop);
}

TEST(RestartRule, ShrinksAtEachLossWithinItsLimits) {
  RestartRule rule({.in_a_row = {2, "--max-restarts"}, .shrinking = Shrinking::kEachLoss});
  EXPECT_EQ(rule.decide(stalled()).next, Next::kShrink);
  EXPECT_EQ(rule.decide(stalled()).next, Next::kShrink);
  EXPECT_EQ(rule.decide(stalled()).next, Next::kStop);
}

}  // namespace
}  // namespace lockstep::launcher
