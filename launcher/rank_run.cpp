#include "launcher/rank_run.h"

#include <fmt/format.h>

#include <cstdio>

#include "launcher/agreements.h"
#include "launcher/answers.h"
#include "launcher/atomic_file.h"
#include "launcher/job.h"
#include "launcher/logits_file.h"
#include "launcher/report.h"

namespace lockstep::launcher {
namespace {

/// Config, partition and static sizes; rank 0 prepares the job on the way.
Result<Plan> make_plan(const GenerateCommand& command, const RankContext& context, Job& job) {
  transport::Bootstrap& bootstrap = context.bootstrap;
  Plan plan;
  JobSizes sizes;
  const auto locally = [&]() -> Result<void> {
    LOCKSTEP_TRY_VOID(check_world_size(command.model.tp, bootstrap.size()));
    LOCKSTEP_TRY(plan.spec, checkpoint::read_spec(command.model.model / "config.json"));
    LOCKSTEP_TRY(plan.partition, partition::make_partition(plan.spec, bootstrap.size()));
    if (bootstrap.rank() == 0) {
      LOCKSTEP_TRY(job, prepare_job(command, plan.spec, sizes));
    }
    return ok();
  };
  LOCKSTEP_TRY_VOID(all_succeeded(bootstrap, locally()));
  LOCKSTEP_TRY(const std::vector<std::string> told, bootstrap.exchange(to_text(sizes)));
  LOCKSTEP_TRY(sizes, parse_sizes(told.front()));

  plan.shard = {
      .slots = sizes.slots,
      .chunk = std::min(command.model.prefill_chunk, sizes.capacity * sizes.slots),
      .capacity = sizes.capacity,
      .dtype = plan.spec.dtype,
      .logits = command.output_logits ? families::StepShape::Logits::kOutput : families::StepShape::Logits::kDropped};
  if (command.model.dtype) {
    LOCKSTEP_TRY(plan.shard.dtype, dtype_from_config_name(*command.model.dtype));
  }
  plan.checkpoint = command.model.model;
  LOCKSTEP_TRY_VOID(find_places(context, plan));
  LOCKSTEP_TRY_VOID(transport::agree(bootstrap, "options and model",
                                     statement_before_weights(command, plan.spec, plan.partition, plan.shard)));
  return plan;
}

/// Streams to stdout what a single prompt produces.
Answers::Show show_on_stdout(const GenerateCommand& command, size_t rows) {
  if (rows != 1 || command.json) return {};
  return [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
}

void print_texts(const Answers& answers, const Job& job) {
  if (answers.rows().size() == 1) {
    if (job.tokenizer == nullptr) fmt::print("{}", fmt::join(answers.rows()[0].tokens, " "));
    fmt::print("\n");
    return;
  }
  for (size_t row = 0; row < answers.rows().size(); ++row) {
    const Answer& answer = answers.rows()[row];
    fmt::print("=== prompt {} ({} tokens, {})\n", row, answer.tokens.size(), generation::to_string(answer.reason));
    if (job.tokenizer != nullptr) fmt::print("{}\n", answer.text);
    if (job.tokenizer == nullptr) fmt::print("{}\n", fmt::join(answer.tokens, " "));
  }
}

void submit_all(actors::Session& session, const Job& job, const GenerateCommand& command, Answers& answers) {
  answers.mark_start();
  for (size_t row = 0; row < job.prompts.size(); ++row) {
    session.submit({.id = RequestId(static_cast<int64_t>(row)),
                    .ids = job.prompts[row].ids,
                    .parameters = job.parameters[row],
                    .logits = command.output_logits ? actors::Logits::kWanted : actors::Logits::kOmit},
                   answers);
  }
  session.finish();
}

/// Row 0's first error, if any request failed on its own.
Result<void> check_answers(const Answers& answers) {
  for (const Answer& answer : answers.rows()) {
    if (answer.error) return *answer.error;
  }
  return ok();
}

Result<void> write_report(const GenerateCommand& command, const RankContext& context, const Job& job, const Plan& plan,
                          const Answers& answers, const RunFacts& facts) {
  if (command.json) {
    LOCKSTEP_TRY_VOID(write_text_file(*command.json, to_json(answers, facts)));
  } else {
    print_texts(answers, job);
  }
  if (command.output_logits) {
    std::vector<std::vector<float>> logits;
    for (const Answer& answer : answers.rows()) logits.push_back(answer.logits);
    LOCKSTEP_TRY_VOID(write_logits(*command.output_logits, logits, plan.spec.vocabulary));
  }
  std::fflush(stdout);  // the answer comes before what is said of it
  context.log.info("{}", summary(answers, facts));
  return ok();
}

}  // namespace

Result<void> run_rank(const GenerateCommand& command, RankContext context, RankMonitor& monitor) {
  const bool is_first = context.bootstrap.rank() == 0;
  Job job;
  context.phases.enter("plan");
  LOCKSTEP_TRY(const Plan plan, make_plan(command, context, job));
  for (const std::string& warning : job.warnings) context.log.warning("{}", warning);

  context.phases.enter("connect");
  LOCKSTEP_TRY(const ChosenCommunicator chosen, connect(context, plan));
  device::Communicator* communicator = chosen.communicator.get();
  log_plan(context, plan, chosen);

  context.phases.enter("load");
  LOCKSTEP_TRY(const LoadedShard loaded, load_shard(context, plan, communicator));

  context.phases.enter("session");
  std::unique_ptr<actors::Session> own_session;
  LOCKSTEP_TRY(actors::Session * session, open_session(context, plan, own_session));
  context.phases.enter("run");
  if (is_first) context.log.info("{}", phases_line(context.phases));
  const auto startup = context.phases.seconds();

  Answers answers(context.clock, {.rows = job.prompts.size(),
                                  .tokenizer = job.tokenizer.get(),
                                  .stop_strings = job.stop_strings,
                                  .max_time = job.max_time,
                                  .show = show_on_stdout(command, job.prompts.size())});
  monitor.watch(session, RankId(context.bootstrap.rank()), communicator);
  if (is_first) submit_all(*session, job, command, answers);
  const Result<void> ended = session->run_executor(RankId(context.bootstrap.rank()), *loaded.shard);
  if (!ended.has_value()) context.on_failure(ended.error());
  monitor.forget();
  if (!ended.has_value()) return ended.error();

  context.phases.enter("report");
  LOCKSTEP_TRY(const auto memories, context.bootstrap.exchange(to_text(loaded.shard->store().memory())));
  if (!is_first) return ok();
  RunFacts facts{.world_size = context.bootstrap.size(),
                 .threads = plan.threads,
                 .backend = command.run.backend,
                 .communicator = communicator == nullptr ? "none" : communicator->name(),
                 .slots = plan.shard.slots,
                 .chunk = plan.shard.chunk,
                 .capacity = plan.shard.capacity,
                 .memory = {},
                 .startup = startup,
                 .graphs_expected = loaded.shard->graphs().all().size(),
                 .graphs = loaded.graphs->compiled(),
                 .graphs_after_warmup = loaded.graphs->compiled_after_close()};
  for (const std::string& memory : memories) facts.memory.push_back(parse_memory(memory));
  LOCKSTEP_TRY_VOID(check_answers(answers));
  return write_report(command, context, job, plan, answers, facts);
}

}  // namespace lockstep::launcher
