#include "launcher/serve/replicas/recovery.h"

#include <gtest/gtest.h>

#include <chrono>

namespace lockstep::serve {
namespace {

using namespace std::chrono_literals;
using State = Recovery::State;

constexpr TimePoint kStart{};
const Error kLost{ErrorKind::kPeerLost, "rank 1 was killed"};
const Error kLate{ErrorKind::kDeadlineExceeded, "rank 1 did not come"};
const Error kNoMemory{ErrorKind::kResourceExhausted, "no memory"};
const Error kBadFile{ErrorKind::kInvalidArgument, "a bad file"};

Recovery serving(Recovery::Rules rules = {}) {
  Recovery recovery(rules);
  recovery.note_serving(kStart);
  return recovery;
}

TEST(Recovery, StartsAgainAtOnceAndServes) {
  Recovery recovery = serving();
  recovery.note_lost();
  EXPECT_EQ(recovery.state(), State::kEnding);
  EXPECT_TRUE(recovery.may_recover());
  const Recovery::Next next = recovery.note_gone(kLost, 10, kStart);
  EXPECT_TRUE(next.again);
  EXPECT_EQ(next.pause, Duration::zero());
  EXPECT_EQ(recovery.state(), State::kWaiting);
  recovery.note_starting();
  EXPECT_EQ(recovery.state(), State::kStarting);
  recovery.note_serving(kStart);
  EXPECT_EQ(recovery.state(), State::kServing);
  EXPECT_EQ(recovery.restarts(), 1);
}

TEST(Recovery, GivesUpAfterTooManyRestartsWithoutAToken) {
  Recovery recovery = serving({.max_restarts = 3});
  Duration before{};
  for (int restart = 1; restart <= 3; ++restart) {
    const Recovery::Next next = recovery.note_gone(kLost, 0, kStart);
    EXPECT_TRUE(next.again) << restart;
    EXPECT_TRUE(restart == 1 ? next.pause == Duration::zero() : next.pause > before) << restart;
    before = next.pause;
    recovery.note_starting();
  }
  EXPECT_FALSE(recovery.note_gone(kLost, 0, kStart).again);
  EXPECT_EQ(recovery.state(), State::kOver);
  EXPECT_FALSE(recovery.may_recover());
}

TEST(Recovery, WaitsTenSecondsAtMost) {
  Recovery recovery = serving({.max_restarts = 100});
  Duration longest{};
  for (int restart = 0; restart < 100; ++restart) {
    longest = std::max(longest, recovery.note_gone(kLost, 0, kStart).pause);
  }
  EXPECT_EQ(longest, 10s);
}

TEST(Recovery, CountsFromZeroAfterATokenOrAMinuteOfService) {
  Recovery recovery = serving({.max_restarts = 1});
  for (uint64_t tokens = 1; tokens < 200; ++tokens) {
    ASSERT_TRUE(recovery.note_gone(kLost, tokens, kStart).again) << tokens;
    recovery.note_serving(kStart);
  }
  ASSERT_TRUE(recovery.note_gone(kLost, 199, kStart + 61s).again);
  recovery.note_serving(kStart);
  EXPECT_FALSE(recovery.note_gone(kLost, 199, kStart + 59s).again);
}

TEST(Recovery, AFirstStartIsRepeatedAfterALossOnly) {
  struct Row {
    Error reason;
    bool again;
  };
  for (const Row& row : {Row{kLost, true}, Row{kLate, true}, Row{kNoMemory, false}, Row{kBadFile, false}}) {
    Recovery recovery({});
    EXPECT_TRUE(recovery.may_recover());
    EXPECT_EQ(recovery.note_gone(row.reason, 0, kStart).again, row.again) << row.reason.message;
  }
}

TEST(Recovery, AnEngineThatHasServedIsStartedAgainWhateverEndedIt) {
  for (const Error& reason : {kLost, kLate, kNoMemory, kBadFile}) {
    EXPECT_TRUE(serving().note_gone(reason, 0, kStart).again) << reason.message;
  }
}

TEST(Recovery, TakesRanksForGoneAfterTwoStartsInARowThatDidNotServe) {
  Recovery recovery = serving();
  EXPECT_FALSE(recovery.note_gone(kLost, 10, kStart).shrinks);
  EXPECT_FALSE(recovery.note_gone(kLate, 10, kStart).shrinks);
  EXPECT_TRUE(recovery.note_gone(kNoMemory, 10, kStart).shrinks);
  EXPECT_TRUE(recovery.note_gone(kLate, 10, kStart).shrinks);
  recovery.note_serving(kStart);
  EXPECT_FALSE(recovery.note_gone(kLost, 20, kStart).shrinks);
}

TEST(Recovery, StopsWhereThePolicySaysSo) {
  Recovery recovery = serving({.policy = on_lost_rank("stop")});
  EXPECT_FALSE(recovery.may_recover());
  EXPECT_FALSE(recovery.note_gone(kLost, 10, kStart).again);
  EXPECT_EQ(on_lost_rank("same"), OnLostRank::kSame);
}

}  // namespace
}  // namespace lockstep::serve
