// `lockstep generate`: refuses output files that cannot be written, then runs this process's ranks.
#include "launcher/batch/batch.h"
#include "launcher/batch/batch_run.h"
#include "launcher/commands/commands.h"
#include "launcher/generate/rank_run.h"
#include "launcher/ranks/ranks.h"
#include "runtime/core/atomic_file.h"

namespace lockstep::launcher {
namespace {

Result<void> check_outputs(const GenerateCommand& command) {
  LOCKSTEP_TRY_VOID(check_batch_options(command));
  if (command.output) LOCKSTEP_TRY_VOID(check_writable(*command.output, "--output"));
  if (command.json) LOCKSTEP_TRY_VOID(check_writable(*command.json, "--json"));
  if (command.output_logits) LOCKSTEP_TRY_VOID(check_writable(*command.output_logits, "--output-logits"));
  if (command.observe.trace) LOCKSTEP_TRY_VOID(check_writable(*command.observe.trace, "--trace"));
  if (command.observe.metrics) LOCKSTEP_TRY_VOID(check_writable(*command.observe.metrics, "--metrics"));
  if (command.run.exit_record)
    LOCKSTEP_TRY_VOID(check_writable(*command.run.exit_record / "rank-0.json", "--exit-record"));
  return ok();
}

}  // namespace

Result<void> generate(const GenerateCommand& command) {
  LOCKSTEP_TRY_VOID(check_outputs(command));
  return run_ranks(command.run, command.model.tp, command.model.model, [&](RankContext context, RankMonitor& monitor) {
    const auto run = command.prompts.jobs_file ? run_batch_rank : run_rank;
    return run(command, std::move(context), monitor);
  });
}

}  // namespace lockstep::launcher
