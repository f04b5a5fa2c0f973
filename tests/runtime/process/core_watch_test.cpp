// What other work takes from this process.
#include "runtime/process/core_watch.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>

namespace lockstep::process {
namespace {

using namespace std::chrono_literals;

/// Keeps its core busy until `stop`.
void work(const std::atomic<bool>& stop) {
  while (!stop) {
  }
}

TEST(CoreWatch, CountsTheWaitsOfAThreadThatSharesItsCore) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  int core = 0;
  while (!CPU_ISSET(core, &before)) ++core;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  const CoreWatch watch;
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);  // threads inherit it
  std::atomic<bool> stop = false;
  std::thread first(work, std::cref(stop)), second(work, std::cref(stop));
  const SteadyClock clock;
  const Deadline deadline(clock, 20s);
  CoreLosses losses;
  do {
    sched_yield();
    losses = watch.losses();
  } while ((losses.waited < 20ms || losses.preemptions == 0) && !deadline.has_passed());
  stop = true;
  first.join();
  second.join();
  sched_setaffinity(0, sizeof before, &before);
  EXPECT_GE(losses.waited, 20ms);
  EXPECT_GE(losses.time, losses.waited);
  EXPECT_GT(losses.preemptions, 0);
}

TEST(CorePressure, IsTheMeanOfTenSeconds) {
  EXPECT_EQ(parse_core_pressure("some avg10=35.50 avg60=25.20 avg300=32.49 total=218242248\nfull avg10=0.00 …"), 0.355);
  for (const char* text : {"", "some", "some avg10=", "full avg10=1.0"}) {
    EXPECT_EQ(parse_core_pressure(text), std::nullopt) << text;
  }
}

TEST(Stolen, IsAMeanOverTheCores) {
  constexpr const char* kStat =
      "cpu  144975 0 15022 30992 785 0 227 500 0 0\ncpu0 1 0 0 0 0 0 0 100 0 0\ncpu1 1 0 0 0 0 0 0 400 0 0\nintr 5\n";
  EXPECT_EQ(parse_stolen(kStat, 100), Duration(2500ms));
  EXPECT_EQ(parse_stolen("cpu 1 2 3\ncpu0 1 2 3\n", 100), Duration{}) << "of an old kernel";
  EXPECT_EQ(parse_stolen("", 100), Duration{});
}

}  // namespace
}  // namespace lockstep::process
