// The watch of this process's job (transport/watch) as the launcher uses it: open from before MPI_Init where the ranks
// share a host, from right after it where they do not, until MPI has ended.
#pragma once

#include <memory>
#include <mutex>

#include "launcher/process/rank_lifecycle.h"
#include "launcher/ranks/control_plane.h"
#include "runtime/core/abort_flag.h"
#include "transport/launch_environment.h"
#include "transport/watch/watch.h"

namespace lockstep::launcher {

/// How long a main thread that is told of an end may take to leave by itself.
inline constexpr auto kGrace = std::chrono::milliseconds(700);

/// Used by the main thread, but for `tell`. An end that it learns of is settled, raises the flag, and ends the process
/// soon.
class GroupWatch {
 public:
  /// Everything is borrowed.
  GroupWatch(const RunOptions& run, const transport::LaunchEnvironment& place, RankLifecycle& office, AbortFlag& abort)
      : run_(run), place_(place), office_(office), abort_(abort) {}

  /// Before MPI: meets the ranks if the launcher says that all are on this host. Failing that, `open` will.
  /// @blocking
  void open_early();
  /// Fails with `kUnavailable` when a rank cannot be reached. @collective @blocking
  Result<void> open(transport::Bootstrap& bootstrap, const ControlPlane& plane);

  /// "; no word from ranks 1, 3": who has not met the others; empty when nothing is known. Thread-safe.
  std::string missing();
  /// Tells the other ranks. Thread-safe.
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

  transport::watch::WatchOptions options() const;
  void set_watch(Watch watch);
  Result<void> open_over_tcp(transport::Bootstrap& bootstrap, const ControlPlane& plane);

  const RunOptions& run_;
  const transport::LaunchEnvironment& place_;
  RankLifecycle& office_;
  AbortFlag& abort_;
  std::mutex mutex_;  // of the pointer: `tell` comes from any thread
  Watch watch_;
};

}  // namespace lockstep::launcher
