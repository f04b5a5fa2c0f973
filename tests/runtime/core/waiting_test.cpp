#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "runtime/core/abort_flag.h"
#include "runtime/core/clock.h"
#include "runtime/core/futex.h"
#include "runtime/core/spin_limit.h"

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

TEST(SpinLimit, StaysBetweenItsBounds) {
  SpinLimit limit;
  for (int i = 0; i < 9; ++i) limit.note_sleep(10us);
  EXPECT_EQ(limit.pauses(), pauses_in(SpinLimit::kLongest));
  for (int i = 0; i < 9; ++i) limit.note_sleep(5ms);
  EXPECT_EQ(limit.pauses(), pauses_in(SpinLimit::kShortest));
}

TEST(SpinLimit, OfAVeryShortSpinIsNotChanged) {
  for (const Duration first : {Duration(0), Duration(1us)}) {
    SpinLimit limit(first);
    limit.note_sleep(10us);
    EXPECT_EQ(limit.pauses(), pauses_in(first));
    limit.note_sleep(5ms);
    EXPECT_EQ(limit.pauses(), pauses_in(first));
  }
}

TEST(Futex, SleepsOnlyWhileTheWordIsAsSeen) {
  std::atomic<uint32_t> word = 1;
  sleep_on(address_of(word), 0, 1h, WordScope::kProcess);  // another value: returns at once
  std::thread waker([&] {
    word.store(2);
    wake_all(address_of(word), WordScope::kProcess);
  });
  while (word.load() == 1) sleep_on(address_of(word), 1, 1h, WordScope::kProcess);
  waker.join();
  EXPECT_EQ(word.load(), 2u);
}

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
