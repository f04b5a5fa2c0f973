// `lockstep bench`: checks the output files, then runs this process's ranks.
#include "launcher/measure/bench/bench.h"

#include "engine/group/rank_threads.h"
#include "launcher/measure/bench/bench_rank.h"
#include "launcher/process/own_ranks.h"
#include "runtime/core/atomic_file.h"

namespace lockstep::launcher {

Result<void> bench(const BenchCommand& command) {
  if (command.json) LOCKSTEP_TRY_VOID(check_writable(*command.json, "--json"));
  if (command.trace) LOCKSTEP_TRY_VOID(check_writable(*command.trace, "--trace"));
  const SteadyClock clock;
  ProgressLine progress(stderr_screen(command.run.progress), clock);
  return on_own_ranks(
      {.run = command.run, .ranks = command.model.ranks, .read_ahead = command.model.directory, .progress = &progress},
      [&](Group& group, const Log&) {
        ProcessSession session;
        return group::on_each_rank(group::State::of(group),
                                   [&](group::Member& member) { return run_bench_rank(command, member, session); });
      });
}

}  // namespace lockstep::launcher
