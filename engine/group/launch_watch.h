// Which replicas of a launch still live: asked at the end alone, because MPI_Finalize waits for every process.
#pragma once

#include <memory>

#include "engine/group/control_plane.h"
#include "runtime/core/abort_flag.h"
#include "runtime/core/result.h"
#include "transport/bootstrap.h"
#include "transport/watch/watch.h"

namespace lockstep::group {

class State;

/// Ends no group. Used by one thread.
class LaunchWatch {
 public:
  LaunchWatch() = default;
  LaunchWatch(const LaunchWatch&) = delete;
  LaunchWatch& operator=(const LaunchWatch&) = delete;

  /// Connects all ranks of the launch; without an answer of its first rank this one only knows less. @collective
  /// @blocking
  Result<void> open(const State& group, transport::Bootstrap& launch, const ControlPlane& plane);

  /// Raised when a rank of the launch has ended before it said so, or is frozen.
  const AbortFlag& lost() const { return lost_; }

  /// Says that this rank ends.
  void leave();

 private:
  AbortFlag lost_;
  std::unique_ptr<transport::watch::PeerWatch> watch_;  // ends first: its thread raises the flag
};

}  // namespace lockstep::group
