// The common part of meetings of processes: they watch each other and compare their programs.
#pragma once

#include "engine/group/meeting.h"
#include "engine/group/state.h"
#include "engine/group/watch.h"

namespace lockstep::group {

class WatchedMeeting : public ProcessMeeting {
 public:
  /// Borrows the group.
  explicit WatchedMeeting(State& group) : group_(group), watch_(group) {}

  const ControlPlane& control_plane() const final { return plane_; }
  Error cause_of(const Error& error) final { return watch_.cause_of(error); }
  std::vector<transport::watch::Presence> presence() final { return watch_.presence(); }
  void announce_leave() final { watch_.announce_leave(); }
  void tell(const Error& error) final { watch_.tell(error); }

 protected:
  /// Watches the ranks of `bootstrap` and compares their programs. @collective @blocking
  Result<void> agree(transport::Bootstrap& bootstrap);

  State& group_;
  GroupWatch watch_;

 private:
  ControlPlane plane_;
};

}  // namespace lockstep::group
