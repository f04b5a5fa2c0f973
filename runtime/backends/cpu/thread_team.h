// The workers of one rank. A job is a function that all workers run simultaneously, with barriers inside.
//
// A worker that waits for others spins as long as `SpinLimit` has learnt, then sleeps; where other threads want the
// cores, `WaitTrial` finds whether it sleeps at once.
//
//   caller (worker 0)   run ──┬── job(0) ── meet ── job(0) … ── meet ──► returns
//   helper (worker i)   wait ─┴── job(i) ── meet ── job(i) … ── meet ──► wait
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "runtime/backends/cpu/wait_trial.h"
#include "runtime/core/clock.h"
#include "runtime/core/result.h"
#include "runtime/core/spin_limit.h"
#include "runtime/device/part.h"

namespace lockstep::cpu {

using device::Part;
using device::Share;
using device::share_of;

/// Used by one thread, which is worker 0 of every job.
class ThreadTeam {
 public:
  /// Starts `threads` − 1 helpers and binds each worker i of them to `cores[i]` unless `cores` is empty. The calling
  /// thread, worker 0, is not bound, because threads that it starts later would inherit its binding.
  static Result<std::unique_ptr<ThreadTeam>> start(int threads, const std::vector<int>& cores);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return threads_; }
  /// How often so far a worker started late after it was woken, since others had its core; wraps around.
  uint32_t late_starts() const { return late_starts_.load(std::memory_order_relaxed); }

  /// Calls `job(context, part)` on every worker and returns when all have returned. Does not allocate.
  void run(void (*job)(void* context, Part part), void* context);

  /// Inside a job: returns when every worker has called it. Meanwhile prefetches `upcoming`, memory that this worker
  /// reads next.
  void meet(std::span<const std::byte> upcoming = {}) {
    if (threads_ > 1) meet_others(upcoming);
  }

 private:
  explicit ThreadTeam(int threads);
  /// A count that workers wait for.
  struct alignas(128) Count {
    std::atomic<uint32_t> value = 0;
    std::atomic<uint32_t> sleepers = 0;
    std::atomic<TimePoint> woken{TimePoint::min()};  // sleepers, the last time
  };

  void help(int worker);
  void meet_others(std::span<const std::byte> upcoming);
  /// Adds 1 and wakes who sleeps on it.
  void advance(Count& count);
  /// Waits until `count` is no longer `old`.
  void wait_for_change(Count& count, uint32_t old);

  int threads_;
  std::vector<std::thread> helpers_;
  void (*job_)(void*, Part) = nullptr;
  void* context_ = nullptr;
  Count jobs_;  // started
  alignas(64) std::atomic<bool> stopping_ = false;
  alignas(64) std::atomic<int> arrived_ = 0;
  Count meetings_;  // barriers passed
  SpinLimit limit_;
  const int pauses_at_once_;  // before a wait that sleeps at once
  SteadyClock clock_;
  WaitTrial trial_;
  std::atomic<uint32_t> late_starts_ = 0;
};

}  // namespace lockstep::cpu
