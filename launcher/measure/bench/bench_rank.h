// One rank of `bench`: repeated generation with measurements of the machine's limits.
//
//   start-up ─► probe ─► warm-up ─► probe ─► repetition ─► probe ─► repetition ─► probe ─► report (rank 0)
//
// All ranks probe at the same time, also between some steps of a repetition (probed_steps.h). Every repetition is a
// separate session, so that time to the first token includes every delay that a user sees.
#pragma once

#include "engine/group/member.h"
#include "engine/session.h"
#include "launcher/measure/bench/bench.h"

namespace lockstep::launcher {

/// `session` is the process's. @collective @blocking
Result<void> run_bench_rank(const BenchCommand& command, group::Member& member, ProcessSession& session);

}  // namespace lockstep::launcher
