#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "runtime/core/abort_flag.h"
#include "runtime/core/clock.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

TEST(Deadline, PassesWhenItsClockReachesIt) {
  ManualClock clock;
  clock.advance(5s);
  const Deadline deadline(clock, 2s);
  EXPECT_FALSE(deadline.has_passed());
  EXPECT_EQ(deadline.remaining(), Duration(2s));
  clock.advance(2s - 1ns);
  EXPECT_FALSE(deadline.has_passed());
  clock.advance(1ns);
  EXPECT_TRUE(deadline.has_passed());
  clock.advance(1s);
  EXPECT_EQ(deadline.remaining(), Duration(-1s));
}

TEST(SteadyClock, NeverGoesBack) {
  const SteadyClock clock;
  TimePoint last = clock.now();
  for (int i = 0; i < 1000; ++i) {
    const TimePoint now = clock.now();
    EXPECT_GE(now, last);
    last = now;
  }
}

TEST(ToSeconds, KeepsFractions) { EXPECT_DOUBLE_EQ(to_seconds(1500ms), 1.5); }

TEST(AbortFlag, KeepsTheFirstReason) {
  AbortFlag flag;
  EXPECT_FALSE(flag.is_raised());
  EXPECT_EQ(flag.reason(), std::nullopt);
  const Error first{ErrorKind::kPeerLost, "rank 2 is gone", 2};
  EXPECT_TRUE(flag.raise(first));
  EXPECT_FALSE(flag.raise({ErrorKind::kDeadlineExceeded, "too late"}));
  EXPECT_TRUE(flag.is_raised());
  EXPECT_EQ(flag.reason(), first);
}

TEST(AbortFlag, HasOneWinnerAmongThreads) {
  AbortFlag flag;
  std::atomic<int> winner = -1;
  std::atomic<int> winners = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      if (!flag.raise({ErrorKind::kCancelled, "stop", i})) return;
      winner = i;
      ++winners;
    });
  }
  threads.clear();  // joins
  EXPECT_EQ(winners, 1);
  EXPECT_EQ(flag.reason()->origin_rank, winner.load());
}

}  // namespace
}  // namespace lockstep
