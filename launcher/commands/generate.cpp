// `lockstep generate`: rank 0 reads, submits and reports rows; every rank opens the engine.
#include "launcher/commands/generate.h"

#include "launcher/batch/batch_job.h"
#include "launcher/batch/replicated_job.h"
#include "launcher/generate/generation.h"
#include "launcher/generate/job.h"
#include "launcher/process/launch_siblings.h"
#include "launcher/process/own_ranks.h"
#include "launcher/process/rank_0_work.h"
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

/// The work of this process's group in a job.
struct Work {
  std::unique_ptr<Job> job;              // on rank 0
  std::optional<EngineOptions> options;  // there: what the job needs; none: there is nothing to do
};

/// The other groups of a launch get their rows from the first one. @collective @blocking
Result<void> share_with_replicas(const GenerateCommand& command, Group& group, const Model& model, Work& work) {
  const bool is_first = group.replica() == 0;
  Result<std::string> shared = std::string();
  if (work.job != nullptr) shared = work.job->share(group);
  LOCKSTEP_TRY_VOID(all_succeeded_on_launch(group, shared.has_value() ? Result<void>(ok()) : shared.error()));
  LOCKSTEP_TRY(const auto told, group.exchange_with_replicas(shared.value()));
  const auto join = [&]() -> Result<void> {
    if (!group.leads() || is_first || told.front().empty()) return ok();
    work.job = make_part_of_job(command, told.front(), static_cast<size_t>(group.replica()));
    LOCKSTEP_TRY(work.options, work.job->prepare(model));
    return ok();
  };
  return all_succeeded_on_launch(group, join());
}

Result<void> run(const GenerateCommand& command, Group& group, const Log& log, ProgressLine& progress) {
  Result<Model> model = Model::open(command.model.directory, command.model.options);
  Work work;
  std::string statement;
  const auto prepare = [&]() -> Result<void> {
    if (!model.has_value()) return model.error();
    LOCKSTEP_TRY(statement, statement_of(command));
    if (!group.leads() || group.replica() != 0) return ok();
    work.job = make_job(command, log, progress);
    LOCKSTEP_TRY(work.options, work.job->prepare(model.value()));
    for (const std::string& warning : model.value().warnings()) log.warning("{}", warning);
    return ok();
  };
  LOCKSTEP_TRY_VOID(all_succeeded_on_launch(group, prepare()));
  LOCKSTEP_TRY_VOID(agree_on_launch(group, "options", statement));
  if (group.replicas() > 1) LOCKSTEP_TRY_VOID(share_with_replicas(command, group, model.value(), work));
  LOCKSTEP_TRY(const std::string todo, group.broadcast(work.options ? "run" : "nothing"));
  const auto report = [&work](const Engine* engine) {
    return work.job != nullptr ? work.job->report(engine) : Result<void>(ok());
  };
  if (todo == "nothing") return do_on_rank_0(group, [&] { return report(nullptr); });
  LOCKSTEP_TRY(const auto engine, Engine::open(group, model.value(), work.options.value_or(EngineOptions())));
  LOCKSTEP_TRY_VOID(group.leads() ? work.job->run(group, *engine) : engine->serve());
  return do_on_rank_0(group, [&] { return report(engine.get()); });
}

}  // namespace

Result<void> generate(const GenerateCommand& command) {
  LOCKSTEP_TRY_VOID(check_outputs(command));
  const SteadyClock clock;
  ProgressLine progress(stderr_screen(command.run.progress), clock);
  if (command.replicas > 1) return run_replicated_job(command, progress);
  return on_own_ranks({.run = command.run,
                       .ranks = command.model.ranks,
                       .read_ahead = command.model.directory,
                       .replicas = command.prompts.jobs_file ? Replicas::kMade : Replicas::kRefused,
                       .progress = &progress},
                      [&](Group& group, const Log& log) { return run(command, group, log, progress); });
}

}  // namespace lockstep::launcher
