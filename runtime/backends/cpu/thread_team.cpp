#include "runtime/backends/cpu/thread_team.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

namespace lockstep::cpu {
namespace {

constexpr int kSpins = 4000;  // about 50 µs: afterwards another thread may need the core
constexpr int kYields = 200;  // afterwards sleep

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Waits until `value` is no longer `old`: spins, then yields, then sleeps.
void wait_for_change(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  for (int i = 0; i < kYields; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    sched_yield();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

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
  jobs_.fetch_add(1, std::memory_order_release);
  jobs_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void ThreadTeam::run(void (*job)(void*, Part), void* context) {
  if (threads_ == 1) return job(context, {0, 1});
  job_ = job;
  context_ = context;
  jobs_.fetch_add(1, std::memory_order_release);
  jobs_.notify_all();
  job(context, {0, threads_});
  meet();
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
  const uint32_t meeting = meetings_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < threads_) {
    for (size_t at = 0; at < upcoming.size(); at += 64) {
      if (meetings_.load(std::memory_order_acquire) != meeting) return;
      __builtin_prefetch(upcoming.data() + at);
    }
    return wait_for_change(meetings_, meeting);
  }
  arrived_.store(0, std::memory_order_relaxed);
  meetings_.store(meeting + 1, std::memory_order_release);
  meetings_.notify_all();
}

}  // namespace lockstep::cpu
