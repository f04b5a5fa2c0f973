#include "runtime/backends/cpu/thread_team.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include "runtime/core/futex.h"

namespace lockstep::cpu {
namespace {

constexpr Duration kLateStart = std::chrono::microseconds(300);  // of a worker that was woken: others had its core
constexpr Duration kSleepAtOnce = std::chrono::microseconds(1);
constexpr Duration kLongestSleep = std::chrono::milliseconds(100);  // then it looks again

Result<void> bind(pthread_t thread, int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (core >= 0 && core < CPU_SETSIZE) CPU_SET(core, &set);
  if (pthread_setaffinity_np(thread, sizeof set, &set) != 0) {
    return Error{ErrorKind::kUnavailable,
                 fmt::format("[runtime/backends/cpu] cannot bind a thread: found core {}, expected a core that this "
                             "process may use; choose other cores or none",
                             core)};
  }
  return ok();
}

}  // namespace

ThreadTeam::ThreadTeam(int threads) : threads_(threads), pauses_at_once_(pauses_in(kSleepAtOnce)), trial_(clock_) {}

Result<std::unique_ptr<ThreadTeam>> ThreadTeam::start(int threads, const std::vector<int>& cores) {
  LOCKSTEP_CHECK(threads >= 1, threads);
  LOCKSTEP_CHECK(cores.empty() || static_cast<int>(cores.size()) == threads, cores.size(), threads);
  std::unique_ptr<ThreadTeam> team(new ThreadTeam(threads));
  for (int worker = 1; worker < threads; ++worker) {
    team->helpers_.emplace_back([t = team.get(), worker] { t->help(worker); });
    if (!cores.empty()) LOCKSTEP_TRY_VOID(bind(team->helpers_.back().native_handle(), cores[worker]));
  }
  return team;
}

ThreadTeam::~ThreadTeam() {
  stopping_.store(true, std::memory_order_relaxed);
  advance(jobs_);
  for (std::thread& helper : helpers_) helper.join();
}

void ThreadTeam::run(void (*job)(void*, Part), void* context) {
  if (threads_ == 1) return job(context, {0, 1});
  job_ = job;
  context_ = context;
  trial_.begin(context);
  advance(jobs_);
  job(context, {0, threads_});
  meet();
  trial_.end(late_starts());
}

void ThreadTeam::help(int worker) {
  uint32_t seen = 0;
  while (true) {
    wait_for_change(jobs_, seen);
    ++seen;
    if (stopping_.load(std::memory_order_relaxed)) return;
    job_(context_, {worker, threads_});
    meet();
  }
}

void ThreadTeam::meet_others(std::span<const std::byte> upcoming) {
  const uint32_t meeting = meetings_.value.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < threads_) {
    for (size_t at = 0; at < upcoming.size(); at += 64) {
      if (meetings_.value.load(std::memory_order_acquire) != meeting) return;
      __builtin_prefetch(upcoming.data() + at);
    }
    return wait_for_change(meetings_, meeting);
  }
  arrived_.store(0, std::memory_order_relaxed);
  advance(meetings_);
}

/// Sequentially consistent with the sleeper's operations (increment, then check), so one of the two sees the other.
void ThreadTeam::advance(Count& count) {
  count.value.fetch_add(1, std::memory_order_seq_cst);
  if (count.sleepers.load(std::memory_order_seq_cst) == 0) return;
  count.woken.store(clock_.now(), std::memory_order_relaxed);
  wake_all(address_of(count.value), WordScope::kProcess);
}

void ThreadTeam::wait_for_change(Count& count, uint32_t old) {
  const bool sleeps = trial_.sleeps();
  for (int left = sleeps ? pauses_at_once_ : limit_.pauses(); left > 0; --left) {
    if (count.value.load(std::memory_order_acquire) != old) return;
    pause_core();
  }
  const TimePoint asleep_since = clock_.now();
  count.sleepers.fetch_add(1, std::memory_order_seq_cst);
  while (count.value.load(std::memory_order_seq_cst) == old) {
    sleep_on(address_of(count.value), old, kLongestSleep, WordScope::kProcess);
  }
  count.sleepers.fetch_sub(1, std::memory_order_relaxed);
  const TimePoint awake = clock_.now(), woken = count.woken.load(std::memory_order_relaxed);
  // An earlier time: it was not yet asleep.
  if (woken >= asleep_since && awake - woken > kLateStart) late_starts_.fetch_add(1, std::memory_order_relaxed);
  if (!sleeps) limit_.learn(awake - asleep_since);
}

}  // namespace lockstep::cpu
