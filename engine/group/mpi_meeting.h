// Processes that MPI connects, watched and of one program.
#pragma once

#include <memory>

#include "engine/group/meeting.h"
#include "lockstep/group.h"

namespace lockstep::group {

/// The ranks that the launcher started; `open` starts MPI, which a process does once. Borrows the group.
std::unique_ptr<ProcessMeeting> make_launched_meeting(State& group);

/// The ranks of a communicator of the program's. Borrows the group.
std::unique_ptr<ProcessMeeting> make_adopted_meeting(State& group, MpiHandle communicator);

}  // namespace lockstep::group
