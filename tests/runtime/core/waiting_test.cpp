#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "runtime/core/abort_flag.h"
#include "runtime/core/clock.h"
#include "runtime/core/descriptor.h"
#include "runtime/core/futex.h"
#include "runtime/core/readiness.h"
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
  for (int i = 0; i < 9; ++i) limit.learn(10us);
  EXPECT_EQ(limit.pauses(), pauses_in(SpinLimit::kLongest));
  for (int i = 0; i < 9; ++i) limit.learn(5ms);
  EXPECT_EQ(limit.pauses(), pauses_in(SpinLimit::kShortest));
}

TEST(SpinLimit, OfAVeryShortSpinIsNotChanged) {
  for (const Duration first : {Duration(0), Duration(1us)}) {
    SpinLimit limit(first);
    limit.learn(10us);
    EXPECT_EQ(limit.pauses(), pauses_in(first));
    limit.learn(5ms);
    EXPECT_EQ(limit.pauses(), pauses_in(first));
  }
}

class ReadinessTest : public ::testing::Test {
 protected:
  ReadinessTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    out_ = Descriptor(ends[0]);
    in_ = Descriptor(ends[1]);
  }

  Descriptor out_, in_;
};

TEST_F(ReadinessTest, IsThatOfTheDescriptorAtOnce) {
  EXPECT_FALSE(becomes_ready(out_.get(), POLLIN, Duration::zero()));
  EXPECT_TRUE(becomes_ready(in_.get(), POLLOUT, Duration::max()));
  ASSERT_EQ(::write(in_.get(), "a", 1), 1);
  EXPECT_TRUE(becomes_ready(out_.get(), POLLIN, Duration::zero()));
  EXPECT_TRUE(becomes_ready(out_.get(), POLLIN, -1s));
}

TEST_F(ReadinessTest, IsAlsoAnErrorAndTheOtherEndsEnd) {
  in_.close();
  EXPECT_TRUE(becomes_ready(out_.get(), POLLIN, Duration::max()));
  EXPECT_TRUE(becomes_ready(1 << 20, POLLIN, Duration::max()));  // is no descriptor
  EXPECT_FALSE(becomes_ready(-1, POLLIN, 1ms));
}

TEST_F(ReadinessTest, IsWaitedForThroughSignalsToTheEndOfTheLimit) {
  using Action = struct sigaction;
  Action ignore{}, before{};
  ignore.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGUSR1, &ignore, &before), 0);
  std::atomic<bool> is_over = false;
  std::thread signals([&is_over, waiter = ::pthread_self()] {
    while (!is_over) {
      ::pthread_kill(waiter, SIGUSR1);
      std::this_thread::yield();
    }
  });
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  EXPECT_FALSE(becomes_ready(out_.get(), POLLIN, 50ms));
  EXPECT_GE(clock.now() - begin, 50ms);
  is_over = true;
  signals.join();
  ::sigaction(SIGUSR1, &before, nullptr);
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
