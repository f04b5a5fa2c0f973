// One rank of `bench`: the run of `generate`, repeated, with the machine's limits measured beside the steps.
//
//   start-up ─► probe ─► warm-up ─► probe ─► repetition ─► probe ─► repetition ─► probe ─► report (rank 0)
//
// All ranks probe at the same time, also between some steps of a repetition (probed_steps.h). Every repetition is a
// session of its own, so that time to the first token holds all that a user waits for.
#pragma once

#include "engine/group/member.h"
#include "engine/session.h"
#include "launcher/measure/bench/bench.h"

namespace lockstep::launcher {

/// `session` is the process's. @collective @blocking
Result<void> run_bench_rank(const BenchCommand& command, group::Member& member, ProcessSession& session);

}  // namespace lockstep::launcher
