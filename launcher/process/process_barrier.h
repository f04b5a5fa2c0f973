// A barrier between programs that one program has started, over inherited sockets.
//
//   starter   ProcessBarrier(2) ─ start ──────────── all are here ─► a byte to each ───────── one is gone ─► closes all
//   program 0   BarrierEnd ─ arrive ─ wait ……………………………………………………………… ─► released      arrive ─ wait ─► failure
//   program 1   BarrierEnd …………………………… arrive ─ wait ……………………… ─► released      ended
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/core/descriptor.h"
#include "runtime/core/result.h"
#include "runtime/core/stop_event.h"

namespace lockstep::launcher {

/// The side of the program that starts the others.
class ProcessBarrier {
 public:
  /// Fails with `kUnavailable` when the system has no more descriptors.
  static Result<std::unique_ptr<ProcessBarrier>> create(size_t members);
  ~ProcessBarrier();
  ProcessBarrier(const ProcessBarrier&) = delete;
  ProcessBarrier& operator=(const ProcessBarrier&) = delete;

  /// The end of `member`, which its process inherits (ChildCommand::kept). Valid until `start`.
  int end_of(size_t member) const { return ends_.at(member).get(); }
  /// Begins to release the members, which have been started. Call once.
  void start();
  /// The member that ended before the others, as far as it has been noticed. Thread-safe.
  std::optional<size_t> first_gone() const;

 private:
  ProcessBarrier() = default;
  void run();

  std::vector<Descriptor> ends_;     // of the members
  std::vector<Descriptor> sockets_;  // to them
  StopEvent stop_;
  std::atomic<int> first_gone_ = -1;
  std::thread thread_;
};

/// The end of one member, which outlives this object.
class BarrierEnd {
 public:
  explicit BarrierEnd(int descriptor) : descriptor_(descriptor) {}

  /// This member has reached the barrier. Fails with `kFailedPrecondition` when another has ended, with
  /// `kInvalidArgument` when the descriptor is no end of a barrier.
  Result<void> arrive() const;
  /// Whether all members have arrived, or `limit` has passed before. Fails with `kFailedPrecondition` when one has
  /// ended instead.
  /// @blocking
  Result<bool> wait(Duration limit) const;

 private:
  int descriptor_;
};

}  // namespace lockstep::launcher
