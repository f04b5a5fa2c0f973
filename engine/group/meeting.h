// How ranks that are processes reach each other: what a group of several processes has and others lack.
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

namespace lockstep::group {

/// Thread-safe, except `leave`, which the thread that made it calls. The destructor never waits for other ranks.
class ProcessMeeting {
 public:
  virtual ~ProcessMeeting() = default;

  /// Meets the other processes; rank, size and the rest count from here on. The bootstrap is the calling thread's.
  /// @collective @blocking
  virtual Result<std::unique_ptr<transport::Bootstrap>> open() = 0;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const ControlPlane& control_plane() const = 0;

  /// A bootstrap of its own for one user of the group; ranks make them in the same order. @collective @blocking
  virtual Result<std::unique_ptr<transport::Bootstrap>> make_bootstrap(const transport::WaitOptions& wait) = 0;

  /// A communicator of messages between `members` (ranks of the group; empty: all). `places` are those of all ranks.
  virtual Result<std::unique_ptr<transport::PartCommunicator>> make_communicator(
      std::span<const device::RankPlace> places, const transport::WaitOptions& wait, std::vector<int> members) = 0;

  /// `error`, or the end of the group that caused it, where that is known. @blocking
  virtual Error cause_of(const Error& error) = 0;
  /// Tells the other processes. @blocking
  virtual void tell(const Error& error) = 0;

  /// Whether calls of the group wait for the calling thread to `lend` itself.
  virtual bool needs_this_thread() const = 0;
  /// Makes the calls that other threads ask for, on the thread that opened the meeting, until `until` holds; it is
  /// asked often. @blocking
  virtual void lend(const std::function<bool()>& until) = 0;

  /// Leaves in good order. @collective @blocking
  virtual Result<void> leave() = 0;
};

}  // namespace lockstep::group
