// One rank of a batch job, from its place in the group to the last row. Every rank runs the same function; rank 0 also
// feeds the session, records rows as they finish, and writes the results at the end.
//
//   jobs file ─► feeder thread ─► session ─► sink (the coordinator's thread) ─► recorder thread ─► journal
//                     └────────── at most so many rows that are not recorded ───────────┘             │
//                                                                             result file ◄───────────┘ in order
#pragma once

#include "launcher/cli/command_line.h"
#include "launcher/ranks/rank_setup.h"

namespace lockstep::launcher {

/// @collective @blocking
Result<void> run_batch_rank(const GenerateCommand& command, RankContext context, RankMonitor& monitor);

}  // namespace lockstep::launcher
