// The watch over this process's group (transport/watch). It opens before MPI_Init if all ranks share a host, otherwise
// right after it, and closes when the group is left.
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

/// Used by one thread, except `presence`, `announce_leave`, `tell`, `missing` and `cause_of`. Ends the group when it
/// detects another rank's end.
class GroupWatch {
 public:
  /// Borrowed.
  explicit GroupWatch(State& group) : group_(group) {}

  /// Before MPI_Init: meets the ranks if the launcher reports that all are on this host; otherwise `open` meets them.
  /// @blocking
  void open_early();
  /// Fails with `kUnavailable` when a rank cannot be reached. @collective @blocking
  Result<void> open(transport::Bootstrap& bootstrap, const ControlPlane& plane);

  /// "; found no word from ranks 1, 3": the ranks that have not met the others; empty when nothing is known.
  std::string missing();
  /// What rank 0 knows of the ranks; empty without a watch, and on other ranks.
  std::vector<transport::watch::Presence> presence();
  /// Tells rank 0 that this rank will have to end before long.
  void announce_leave();
  /// Sends the failure to the other ranks. @blocking
  void tell(const Error& error);
  /// `error`, or the watch's own finding if `error` may be the effect of another rank's end: a loss, or a peer that
  /// cannot be reached. @blocking
  Error cause_of(const Error& error);
  /// Reports that this rank is done; rank 0 waits for the others. @blocking
  void leave(Duration patience);

 private:
  using Watch = std::shared_ptr<transport::watch::PeerWatch>;  // shared with a thread that waits for its finding

  bool is_off() const;
  transport::watch::WatchOptions options(int rank, int size) const;
  void set_watch(Watch watch);
  Result<void> open_over_tcp(transport::Bootstrap& bootstrap, const ControlPlane& plane);

  State& group_;
  std::mutex mutex_;  // guards the pointer: any thread may call `tell`
  Watch watch_;
};

}  // namespace lockstep::group
