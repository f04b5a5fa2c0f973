// A queue of exchanges for MPI's one thread, under the thread levels funneled and single.
//
//   any other thread          run(work) ── queued ──► [ waits until it is done ]
//                                             │ taken
//   the owner's thread        serve(until) ───┴─► poll, poll, poll … all that were taken, in turn
//                             run(work)    ─────► the same, until its own work is over
//
// All exchanges are polled in turn, because peers may have begun two of them in the other order. An owner that leaves
// keeps unfinished exchanges for its next call: its program may have to call a peer's first.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "transport/bootstrap.h"

namespace lockstep::transport::mpi {

/// An exchange of non-blocking steps. Both functions are called on the owner's thread.
class PolledWork {
 public:
  virtual ~PolledWork() = default;

  /// Begins or continues; whether it is done. Ends at its deadline or an abort.
  virtual bool poll() = 0;
  /// Abandons the exchange: no thread waits for it.
  virtual void abandon() = 0;
};

/// Belongs to the thread that makes it. Thread-safe. Where MPI is funneled all groups of a process share one, since a
/// thread that waits for one of them must serve the others too.
class FunneledQueue {
 public:
  enum class Ran {
    kOver,      // by the owner, successfully or not
    kAborted,   // not by the owner before the abort flag was raised
    kUnserved,  // the owner did not serve for the length of the deadline
  };

  FunneledQueue() = default;
  FunneledQueue(const FunneledQueue&) = delete;
  FunneledQueue& operator=(const FunneledQueue&) = delete;

  bool is_owner() const { return std::this_thread::get_id() == owner_; }

  /// Has the owner poll `work` until it is over; on the owner's thread at once. After another end than `kOver` the work
  /// is kept until the owner has abandoned it. @blocking
  Ran run(std::shared_ptr<PolledWork> work, const WaitOptions& wait);  // shared: it may outlive the caller's wait

  /// On the owner's thread: performs works of other threads until `until` holds, which is asked often and may take a
  /// millisecond to be noticed. Fails with the reason of an abort, and with `kDeadlineExceeded` when there was nothing
  /// to perform for the length of the deadline. @blocking
  Result<void> serve(const std::function<bool()>& until, const WaitOptions& wait);

 private:
  struct Entry {
    std::shared_ptr<PolledWork> work;  // shared with the thread that waits for it
    std::atomic<bool> is_over = false;
    bool is_abandoned = false;  // under the mutex
  };

  /// The owner is here, until destroyed.
  class Serving {
   public:
    explicit Serving(FunneledQueue& queue);
    ~Serving();

   private:
    FunneledQueue& queue_;
  };

  Ran wait_for(const std::shared_ptr<Entry>& entry, const WaitOptions& wait);
  void take_queued();
  void poll_all();
  void wait_for_work();

  const std::thread::id owner_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::condition_variable changed_;             // queued, over, or the owner came or left
  std::vector<std::shared_ptr<Entry>> queued_;  // under the mutex
  std::atomic<bool> has_queued_ = false;
  bool is_serving_ = false;                    // under the mutex
  uint64_t times_served_ = 0;                  // under the mutex
  std::vector<std::shared_ptr<Entry>> taken_;  // the owner's
};

}  // namespace lockstep::transport::mpi
