// The watch of this process's group (transport/watch): open from before MPI_Init where the ranks share a host, from
// right after it where they do not, until the group is left.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "engine/group/control_plane.h"
#include "runtime/core/result.h"
#include "transport/launch_environment.h"
#include "transport/watch/watch.h"

namespace lockstep::group {

class State;

/// Used by one thread, except `tell`, `missing` and `cause_of`. An end that it learns of ends the group.
class GroupWatch {
 public:
  /// Borrowed.
  explicit GroupWatch(State& group) : group_(group) {}

  /// Before MPI: meets the ranks if the launcher says that all are on this host. Failing that, `open` will.
  /// @blocking
  void open_early();
  /// Fails with `kUnavailable` when a rank cannot be reached. @collective @blocking
  Result<void> open(transport::Bootstrap& bootstrap, const ControlPlane& plane);

  /// "; found no word from ranks 1, 3": the ranks that have not met the others; empty when nothing is known.
  std::string missing();
  /// Tells the other ranks.
  /// @blocking
  void tell(const Error& error);
  /// `error`, or what the watch knows of it if it may be the effect of another rank's end: a loss, a peer that cannot
  /// be reached.
  /// @blocking
  Error cause_of(const Error& error);
  /// This rank is done; rank 0 waits for the others.
  /// @blocking
  void leave(Duration patience);

 private:
  using Watch = std::unique_ptr<transport::watch::PeerWatch>;

  bool is_off() const;
  transport::watch::WatchOptions options(int rank, int size) const;
  void set_watch(Watch watch);
  Result<void> open_over_tcp(transport::Bootstrap& bootstrap, const ControlPlane& plane);

  State& group_;
  std::mutex mutex_;  // of the pointer: `tell` comes from any thread
  Watch watch_;
};

}  // namespace lockstep::group
