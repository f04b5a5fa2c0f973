// The meeting of processes that lockstep starts itself, on one host, without MPI.
#pragma once

#include <memory>

#include "engine/group/meeting.h"
#include "engine/group/rank_processes.h"
#include "transport/launch_environment.h"

namespace lockstep::group {

class State;

/// How a process becomes a rank of such a meeting.
struct LocalSeat {
  transport::LaunchEnvironment launch;      // of Launcher::kLockstep
  std::unique_ptr<RankProcesses> children;  // the processes that this one has to start; null: it was started itself
};

/// Rank 0 of `ranks` ranks, which starts the others as copies of this program, or the rank as which this process was
/// started. Fails with `kFailedPrecondition` for another number of ranks than this process was started for, and under
/// another launcher. `launch` describes this process.
Result<LocalSeat> find_seat(int ranks, const transport::LaunchEnvironment& launch);

/// Borrows the group, whose launch is the seat's; `children` may be null.
std::unique_ptr<ProcessMeeting> make_local_meeting(State& group, std::unique_ptr<RankProcesses> children);

}  // namespace lockstep::group
