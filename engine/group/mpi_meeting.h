// Meetings of processes connected by MPI.
#pragma once

#include <memory>

#include "engine/group/meeting.h"
#include "lockstep/group.h"

namespace lockstep::group {

/// The ranks that the launcher started. `open` starts MPI, once per process. Borrows the group.
std::unique_ptr<ProcessMeeting> make_launched_meeting(State& group);

/// The ranks of the program's own communicator. Borrows the group.
std::unique_ptr<ProcessMeeting> make_adopted_meeting(State& group, MpiHandle communicator);

}  // namespace lockstep::group
