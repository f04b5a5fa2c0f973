// The interface of a group of several processes to the other processes.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/group/control_plane.h"
#include "runtime/core/result.h"
#include "runtime/device/communicator.h"
#include "runtime/device/rank_place.h"
#include "transport/bootstrap.h"
#include "transport/parts.h"
#include "transport/watch/watch.h"

namespace lockstep::group {

/// Thread-safe, except `leave`, which runs on the thread that made the object. The destructor never waits for ranks.
class ProcessMeeting {
 public:
  virtual ~ProcessMeeting() = default;

  /// Meets the other processes; rank, size and the rest are valid afterwards. The bootstrap is the calling thread's.
  /// @collective @blocking
  virtual Result<std::unique_ptr<transport::Bootstrap>> open() = 0;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const ControlPlane& control_plane() const = 0;

  /// A separate bootstrap for one user of the group; ranks make them in the same order. @collective @blocking
  virtual Result<std::unique_ptr<transport::Bootstrap>> make_bootstrap(const transport::WaitOptions& wait) = 0;

  /// Whether ranks can send each other messages; otherwise they share memory only.
  virtual bool has_messages() const = 0;
  /// A message communicator between `members` (ranks of the group; empty: all). `places` are those of all ranks.
  virtual Result<std::unique_ptr<transport::PartCommunicator>> make_communicator(
      std::span<const device::RankPlace> places, const transport::WaitOptions& wait, std::vector<int> members) = 0;

  /// `error`, or the end of the group that caused it, if that is known. @blocking
  virtual Error cause_of(const Error& error) = 0;
  /// What rank 0 knows of the ranks; empty without a watch, and on other ranks.
  virtual std::vector<transport::watch::Presence> presence() = 0;
  /// Tells rank 0 that this rank will have to end before long.
  virtual void announce_leave() = 0;
  /// Sends the failure to the other processes. @blocking
  virtual void tell(const Error& error) = 0;

  /// Whether calls of the group need the calling thread to `lend` itself.
  virtual bool needs_this_thread() const = 0;
  /// Makes other threads' calls on the thread that opened the meeting until `until`, which is called often, returns
  /// true. @blocking
  virtual void lend(const std::function<bool()>& until) = 0;

  /// Leaves the group after all work is done. @collective @blocking
  virtual Result<void> leave() = 0;
};

}  // namespace lockstep::group
