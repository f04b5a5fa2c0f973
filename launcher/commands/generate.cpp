// `lockstep generate`: rank 0 reads, submits and reports rows; every rank opens the engine.
#include "launcher/commands/generate.h"

#include "launcher/batch/batch_job.h"
#include "launcher/batch/replicated_job.h"
#include "launcher/generate/generation.h"
#include "launcher/generate/job.h"
#include "launcher/process/own_ranks.h"
#include "runtime/core/atomic_file.h"

namespace lockstep::launcher {
namespace {

Result<void> check_outputs(const GenerateCommand& command) {
  LOCKSTEP_TRY_VOID(check_batch_options(command));
  const ObserveOptions& observe = command.engine.observe;
  if (command.output) LOCKSTEP_TRY_VOID(check_writable(*command.output, "--output"));
  if (command.json) LOCKSTEP_TRY_VOID(check_writable(*command.json, "--json"));
  if (command.output_logits) LOCKSTEP_TRY_VOID(check_writable(*command.output_logits, "--output-logits"));
  if (command.output_scores) LOCKSTEP_TRY_VOID(check_writable(*command.output_scores, "--output-scores"));
  if (observe.trace) LOCKSTEP_TRY_VOID(check_writable(*observe.trace, "--trace"));
  if (observe.metrics) LOCKSTEP_TRY_VOID(check_writable(*observe.metrics, "--metrics"));
  return ok();
}

/// Called on rank 0.
std::unique_ptr<Job> make_job(const GenerateCommand& command, const Log& log, ProgressLine& progress) {
  return command.prompts.jobs_file ? make_batch_job(command, log, progress) : make_prompt_job(command, log, progress);
}

Result<void> run(const GenerateCommand& command, Group& group, const Log& log, ProgressLine& progress) {
  Result<Model> model = Model::open(command.model.directory, command.model.options);
  std::unique_ptr<Job> job;
  std::optional<EngineOptions> options;
  std::string statement;
  const auto prepare = [&]() -> Result<void> {
    if (!model.has_value()) return model.error();
    LOCKSTEP_TRY(statement, statement_of(command));
    if (!group.leads()) return ok();
    job = make_job(command, log, progress);
    LOCKSTEP_TRY(options, job->prepare(model.value()));
    for (const std::string& warning : model.value().warnings()) log.warning("{}", warning);
    return ok();
  };
  LOCKSTEP_TRY_VOID(group.all_succeeded(prepare()));
  LOCKSTEP_TRY_VOID(group.agree("options", statement));
  LOCKSTEP_TRY(const std::string todo, group.broadcast(options ? "run" : "nothing"));
  if (todo == "nothing") return job ? job->report(nullptr) : Result<void>(ok());
  LOCKSTEP_TRY(const auto engine, Engine::open(group, model.value(), options.value_or(EngineOptions())));
  if (!group.leads()) return engine->serve();
  LOCKSTEP_TRY_VOID(job->run(group, *engine));
  return job->report(engine.get());
}

}  // namespace

Result<void> generate(const GenerateCommand& command) {
  LOCKSTEP_TRY_VOID(check_outputs(command));
  const SteadyClock clock;
  ProgressLine progress(stderr_screen(command.run.progress), clock);
  if (command.replicas > 1) return run_replicated_job(command, progress);
  return on_own_ranks(
      {.run = command.run, .ranks = command.model.ranks, .read_ahead = command.model.directory, .progress = &progress},
      [&](Group& group, const Log& log) { return run(command, group, log, progress); });
}

}  // namespace lockstep::launcher
