#include "runtime/backends/cpu/thread_team.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <thread>

#include "tests/core_time.h"

namespace lockstep::cpu {
namespace {

TEST(ShareOf, GivesEveryItemToExactlyOneWorker) {
  for (int workers : {1, 2, 3, 7}) {
    for (int64_t count : {0, 1, 6, 7, 100}) {
      int64_t next = 0;
      for (int worker = 0; worker < workers; ++worker) {
        const Share share = share_of(count, {worker, workers});
        EXPECT_EQ(share.begin, next);
        EXPECT_LE(share.end - share.begin, count / workers + 1);
        next = share.end;
      }
      EXPECT_EQ(next, count);
    }
  }
}

/// Each round, every worker writes its cell and then reads all cells of the round before.
struct Rounds {
  static constexpr int kRounds = 300;
  ThreadTeam* team;
  std::array<std::array<int, 4>, 2> cells{};
  std::atomic<int> mistakes = 0;

  static void job(void* self, Part part) {
    auto& rounds = *static_cast<Rounds*>(self);
    for (int round = 1; round <= kRounds; ++round) {
      rounds.cells[round % 2][part.worker] = round;
      rounds.team->meet();
      for (int other = 0; other < part.workers; ++other) {
        if (rounds.cells[round % 2][other] != round) ++rounds.mistakes;
      }
      rounds.team->meet();
    }
  }
};

TEST(ThreadTeam, LetsNobodyPassABarrierBeforeAllHaveCome) {
  for (int threads : {1, 2, 4}) {
    const auto team = ThreadTeam::start(threads, {}).value();
    for (int repeat = 0; repeat < 3; ++repeat) {
      Rounds rounds{.team = team.get()};
      team->run(Rounds::job, &rounds);
      EXPECT_EQ(rounds.mistakes, 0) << threads;
      for (int worker = 0; worker < threads; ++worker) EXPECT_EQ(rounds.cells[0][worker], Rounds::kRounds);
    }
  }
}

/// Worker 1 comes late to a meeting; the others' use of the processor while they wait.
struct LateWorker {
  static constexpr Duration kLate = std::chrono::milliseconds(300);
  ThreadTeam* team;
  std::array<Duration, 3> used{};

  static void job(void* self, Part part) {
    auto& late = *static_cast<LateWorker*>(self);
    if (part.worker == 1) use_core_for(kLate);
    const Duration before = own_core_time();
    late.team->meet();
    late.used[static_cast<size_t>(part.worker)] = own_core_time() - before;
  }
};

TEST(ThreadTeam, SleepsWhileAWorkerIsLate) {
  const auto team = ThreadTeam::start(3, {}).value();
  LateWorker late{.team = team.get()};
  team->run(LateWorker::job, &late);
  EXPECT_LT(late.used[0], LateWorker::kLate / 6);
  EXPECT_LT(late.used[2], LateWorker::kLate / 6);
}

TEST(ThreadTeam, RunsAJobOncePerWorkerAndReturnsWhenAllAreDone) {
  const auto team = ThreadTeam::start(3, {}).value();
  std::array<std::atomic<int>, 3> runs{};
  for (int repeat = 1; repeat <= 100; ++repeat) {
    team->run([](void* cells, Part part) { ++(*static_cast<std::array<std::atomic<int>, 3>*>(cells))[part.worker]; },
              &runs);
    for (const auto& count : runs) ASSERT_EQ(count, repeat);
  }
}

/// Of those that this process may use.
int first_core() {
  cpu_set_t own;
  EXPECT_EQ(sched_getaffinity(0, sizeof own, &own), 0);
  int core = 0;
  while (!CPU_ISSET(core, &own)) ++core;
  return core;
}

TEST(ThreadTeam, BindsEachHelperToItsCoreAndLeavesTheCallerAsItIs) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const int core = first_core();
  const auto team = ThreadTeam::start(3, {core, core, core}).value();
  std::array<cpu_set_t, 3> found{};
  team->run(
      [](void* sets, Part part) {
        cpu_set_t& own = (*static_cast<std::array<cpu_set_t, 3>*>(sets))[part.worker];
        sched_getaffinity(0, sizeof own, &own);
      },
      &found);
  EXPECT_TRUE(CPU_EQUAL(&found[0], &before));
  for (const int worker : {1, 2}) {
    EXPECT_EQ(CPU_COUNT(&found[worker]), 1);
    EXPECT_TRUE(CPU_ISSET(core, &found[worker]));
  }
}

/// A thread that keeps one core busy.
class BusyCore {
 public:
  explicit BusyCore(int core)
      : thread_([this] {
          while (!ends_) ++work_;
        }) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    EXPECT_EQ(pthread_setaffinity_np(thread_.native_handle(), sizeof set, &set), 0);
  }
  ~BusyCore() {
    ends_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> ends_ = false;
  std::atomic<int64_t> work_ = 0;
  std::thread thread_;
};

/// Worker 1 waits at each meeting, longer than it spins.
void wait_at_meetings(void* team, Part part) {
  for (int i = 0; i < 5; ++i) {
    if (part.worker == 0) use_core_for(2 * SpinLimit::kLongest);
    static_cast<ThreadTeam*>(team)->meet();
  }
}

TEST(ThreadTeam, SeesThatAnotherThreadHasTheCoreOfAWorkerThatIsWoken) {
  const int core = first_core();
  const auto team = ThreadTeam::start(2, {core, core}).value();
  const BusyCore busy(core);
  const SteadyClock clock;
  const Deadline deadline(clock, std::chrono::seconds(60));
  while (team->late_starts() == 0 && !deadline.has_passed()) team->run(wait_at_meetings, team.get());
  EXPECT_GT(team->late_starts(), 0u);
}

TEST(ThreadTeam, RefusesACoreThatTheMachineLacks) {
  const auto team = ThreadTeam::start(2, {0, 1000000});
  ASSERT_FALSE(team.has_value());
  EXPECT_EQ(team.error().kind, ErrorKind::kUnavailable);
}

}  // namespace
}  // namespace lockstep::cpu
