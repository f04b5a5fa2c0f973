// One rank of `generate`, from its place in the group to the last token. Every rank runs the same function; rank 0 also
// prepares the job, submits it and reports.
//
//   spec, partition ─► job (rank 0) ─► agreement 1 ─► communicator ─► weights, compile ─► agreement 2 ─► session
//                                                                                                           │
//                                       report (rank 0) ◄─ memory of all ranks ◄─ executor until the end ◄──┘
#pragma once

#include "launcher/cli/command_line.h"
#include "launcher/ranks/rank_setup.h"

namespace lockstep::launcher {

/// @collective @blocking
Result<void> run_rank(const GenerateCommand& command, RankContext context, RankMonitor& monitor);

}  // namespace lockstep::launcher
