// `lockstep bench`: refuses output files that cannot be written, then runs this process's ranks. With --suite it
// starts the score card instead.
#include "launcher/commands/commands.h"
#include "launcher/measure/bench/bench_rank.h"
#include "launcher/measure/bench/suite_tool.h"
#include "launcher/ranks/ranks.h"
#include "runtime/core/atomic_file.h"

namespace lockstep::launcher {

Result<void> bench(const BenchCommand& command) {
  if (!command.suite.name.empty()) return exec_suite_tool(command);
  if (command.json) LOCKSTEP_TRY_VOID(check_writable(*command.json, "--json"));
  if (command.trace) LOCKSTEP_TRY_VOID(check_writable(*command.trace, "--trace"));
  if (command.run.exit_record) {
    LOCKSTEP_TRY_VOID(check_writable(*command.run.exit_record / "rank-0.json", "--exit-record"));
  }
  return run_ranks(command.run, command.model.tp, command.model.model, [&](RankContext context, RankMonitor& monitor) {
    return run_bench_rank(command, std::move(context), monitor);
  });
}

}  // namespace lockstep::launcher
