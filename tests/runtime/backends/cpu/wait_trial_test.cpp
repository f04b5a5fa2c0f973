#include "runtime/backends/cpu/wait_trial.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::cpu {
namespace {

using namespace std::chrono_literals;

/// A team whose jobs take as long as the test says.
class WaitTrialTest : public ::testing::Test {
 protected:
  /// Runs a job; returns whether its waits slept at once.
  bool run(uint32_t late_starts = 0) { return run_of(kDecode_, late_starts); }
  bool run_of(const char& kind, uint32_t late_starts) {
    trial_.begin(&kind);
    const bool sleeps = trial_.sleeps();
    clock_.advance(sleeps ? asleep_ : spinning_);
    trial_.end(late_ += late_starts);
    return sleeps;
  }
  /// The ways of `count` jobs: "s" for one that slept at once, "." for one that spun.
  std::string run_jobs(int count, uint32_t late_starts = 0) {
    std::string ways;
    for (int i = 0; i < count; ++i) ways += run(late_starts) ? 's' : '.';
    return ways;
  }

  ManualClock clock_;
  WaitTrial trial_{clock_};
  Duration spinning_ = 80ms, asleep_ = 20ms;
  uint32_t late_ = 0;
  const char kDecode_ = 0, kPrefill_ = 0;
};

TEST_F(WaitTrialTest, SpinsWhereNoWorkerStartsLateOrOneByAccident) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(run(1));
    EXPECT_EQ(run_jobs(WaitTrial::kTogether), std::string(WaitTrial::kTogether, '.'));
  }
}

TEST_F(WaitTrialTest, KeepsSleepingWhereItIsMuchFasterAndTriesAgain) {
  run(2);
  const std::string kept(WaitTrial::kKept, 's');
  EXPECT_EQ(run_jobs(4, 1), ".s.s");
  EXPECT_EQ(run_jobs(WaitTrial::kKept), kept);
  EXPECT_EQ(run_jobs(4, 1), ".s.s");
  EXPECT_EQ(run_jobs(WaitTrial::kKept), kept);
  // The other programs are gone.
  EXPECT_EQ(run_jobs(4), ".s.s");
  EXPECT_EQ(run_jobs(300), std::string(300, '.'));
}

TEST_F(WaitTrialTest, CountsLateStartsOfTwoJobsTogether) {
  run(1);
  run();
  run(1);
  EXPECT_EQ(run_jobs(4, 1), ".s.s");
}

TEST_F(WaitTrialTest, KeepsSpinningWhereSleepingIsNotClearlyFaster) {
  asleep_ = 65ms;
  run(2);
  EXPECT_EQ(run_jobs(4, 1), ".s.s");
  EXPECT_EQ(run_jobs(WaitTrial::kKept, 1), std::string(WaitTrial::kKept, '.'));
  run(2);
  EXPECT_EQ(run_jobs(4, 1), ".s.s");
}

TEST_F(WaitTrialTest, ComparesJobsOfOneKind) {
  run(2);
  EXPECT_FALSE(run(1));  // of which the kind is compared
  EXPECT_FALSE(run_of(kPrefill_, 5));
  EXPECT_TRUE(run(1));
  EXPECT_FALSE(run_of(kPrefill_, 5));
  EXPECT_EQ(run_jobs(2, 1), ".s");
  EXPECT_TRUE(run_of(kPrefill_, 0));
}

TEST_F(WaitTrialTest, ComparesAnotherKindWhereTheFirstComesNoMore) {
  run_of(kPrefill_, 2);
  EXPECT_FALSE(run_of(kPrefill_, 1));
  EXPECT_EQ(run_jobs(WaitTrial::kOthers, 1), std::string(WaitTrial::kOthers, '.'));
  EXPECT_EQ(run_jobs(4, 1), ".s.s");
  EXPECT_TRUE(run());
}

}  // namespace
}  // namespace lockstep::cpu
