#include "launcher/generate/rank_run.h"

#include <fmt/format.h>

#include <cstdio>

#include "launcher/atomic_file.h"
#include "launcher/generate/answers.h"
#include "launcher/generate/job.h"
#include "launcher/generate/logits_file.h"
#include "launcher/generate/report.h"
#include "launcher/ranks/agreements.h"
#include "launcher/ranks/observation.h"
#include "launcher/ranks/serving_spec.h"

namespace lockstep::launcher {
namespace {

/// The draft model of a target: its slots and chunk, and room for drafts beyond the target's capacity. Fails as
/// `checkpoint::read_spec` and `partition::make_partition`, and with `kInvalidArgument` when its table of positions
/// ends before.
Result<ModelPlan> plan_draft(const std::filesystem::path& directory, const shards::ShardOptions& target, int ranks) {
  ModelPlan draft;
  LOCKSTEP_TRY(draft.spec, checkpoint::read_spec(directory / "config.json"));
  LOCKSTEP_TRY(draft.partition, partition::make_partition(draft.spec, ranks));
  draft.shard = {.slots = target.slots,
                 .chunk = target.chunk,
                 .capacity = target.capacity + target.drafts + 1,
                 .dtype = target.dtype};
  draft.checkpoint = directory;
  const bool has_table = draft.spec.positions == checkpoint::Positions::kLearned;
  if (!has_table || draft.shard.capacity <= draft.spec.max_positions) return draft;
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[launcher] --draft-model: found a model of {} positions, expected at least {} (a slot's "
                           "capacity and the drafts); lower --max-seq-len or take another model",
                           draft.spec.max_positions, draft.shard.capacity)};
}

/// Config, partition and static sizes; rank 0 prepares the job on the way.
Result<Plan> make_plan(const GenerateCommand& command, const RankContext& context, Job& job) {
  transport::Bootstrap& bootstrap = context.bootstrap;
  Plan plan;
  ModelPlan& model = plan.model;
  const auto locally = [&]() -> Result<void> {
    LOCKSTEP_TRY_VOID(check_world_size(command.model.tp, bootstrap.size()));
    LOCKSTEP_TRY(model.spec, serving_spec(command.model, command.model.model / "config.json"));
    LOCKSTEP_TRY(model.partition, partition::make_partition(model.spec, bootstrap.size(), command.model.experts));
    if (bootstrap.rank() == 0) {
      LOCKSTEP_TRY(job, prepare_job(command, model.spec, context.clock));
    }
    return ok();
  };
  LOCKSTEP_TRY_VOID(all_succeeded(bootstrap, locally()));
  LOCKSTEP_TRY(const std::vector<std::string> told, bootstrap.exchange(to_text(job.sizes)));
  LOCKSTEP_TRY(const JobSizes sizes, parse_sizes(told.front()));

  const auto size = [&]() -> Result<void> {
    LOCKSTEP_TRY(model.shard, shard_options(command.model, model.spec, sizes.slots, sizes.capacity));
    model.shard.drafts = sizes.drafts;
    if (sizes.wants_logits) model.shard.logits = families::StepShape::Logits::kOutput;
    model.checkpoint = command.model.model;
    if (sizes.ngram > 0) plan.lookup = {.ngram_size = static_cast<int32_t>(sizes.ngram)};
    if (command.draft_model) {
      LOCKSTEP_TRY(plan.draft, plan_draft(*command.draft_model, model.shard, bootstrap.size()));
    }
    return ok();
  };
  LOCKSTEP_TRY_VOID(all_succeeded(bootstrap, size()));
  LOCKSTEP_TRY_VOID(find_places(context, plan));
  LOCKSTEP_TRY_VOID(transport::agree(bootstrap, "options and model",
                                     statement_before_weights(command, model.spec, model.partition, model.shard)));
  return plan;
}

/// Streams to stdout what a single prompt produces.
Answers::Show show_on_stdout(const GenerateCommand& command, const Job& job) {
  if (job.answers != 1 || command.json) return {};
  return [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
}

/// Every answer under a header line; what was streamed has only its line ended.
void print_texts(const Answers& answers, const Job& job) {
  const size_t answers_each = answers.rows().size() / job.prompts.size();
  for (size_t row = 0; row < answers.rows().size(); ++row) {
    const Answer& answer = answers.rows()[row];
    const std::string ids = fmt::format("{}", fmt::join(answer.tokens, " "));
    if (answers.rows().size() == 1) {
      fmt::print("{}\n", job.tokenizer == nullptr ? ids : "");
      return;
    }
    const std::string which = answers_each == 1 ? "" : fmt::format(", answer {}", row % answers_each);
    const std::string score = answer.score ? fmt::format(", score {:.4f}", *answer.score) : "";
    fmt::print("=== prompt {}{} ({} tokens, {}{})\n{}\n", row / answers_each, which, answer.tokens.size(),
               generation::to_string(answer.reason), score, job.tokenizer == nullptr ? ids : answer.text);
  }
}

void submit_all(actors::Session& session, const Job& job, Answers& answers, Observation& observation) {
  answers.mark_start();
  actors::Sink& sink = observation.timed(answers, job.requests.size(), job.answers);
  for (const JobRequest& made : job.requests) session.submit(made.request, sink);
  session.finish();
}

/// Takes over what the host chose.
void adopt_all(const Job& job, Answers& answers) {
  for (const JobRequest& made : job.requests) {
    if (made.request.chooser) answers.adopt(made.request.id, made.request.chooser->sequences());
  }
}

/// The first error of a request that failed on its own, if there is one.
Result<void> check_answers(const Answers& answers) {
  for (const Answer& answer : answers.rows()) {
    if (answer.error) return *answer.error;
  }
  return ok();
}

/// [rows][tokens · vocabulary]
std::vector<std::vector<float>> logits_of(const Answers& answers) {
  std::vector<std::vector<float>> logits;
  for (const Answer& answer : answers.rows()) logits.push_back(answer.logits);
  return logits;
}

/// [rows][tokens · vocabulary]
std::vector<std::vector<float>> scores_of(const Answers& answers) {
  std::vector<std::vector<float>> scores;
  for (const Answer& answer : answers.rows()) {
    std::vector<float>& row = scores.emplace_back();
    for (const auto& record : answer.records) row.insert(row.end(), record->scores.begin(), record->scores.end());
  }
  return scores;
}

Result<void> write_report(const GenerateCommand& command, const RankContext& context, const Job& job, const Plan& plan,
                          const Answers& answers, const RunFacts& facts) {
  if (command.json) {
    LOCKSTEP_TRY_VOID(write_text_file(*command.json, to_json(answers, facts)));
  } else {
    print_texts(answers, job);
  }
  const int64_t vocabulary = plan.model.spec.vocabulary;
  if (command.output_logits) {
    LOCKSTEP_TRY_VOID(write_logits(*command.output_logits, "logits", logits_of(answers), vocabulary));
  }
  if (command.output_scores) {
    LOCKSTEP_TRY_VOID(write_logits(*command.output_scores, "scores", scores_of(answers), vocabulary));
  }
  std::fflush(stdout);  // the answer comes before what is said of it
  context.log.info("{}", summary(answers, facts));
  return ok();
}

/// Submits the job on rank 0 and runs the session's steps until it ends. @collective @blocking
Result<void> run_session(const RankContext& context, RankMonitor& monitor, actors::Session& session,
                         shards::Engine& engine, const Job& job, Answers& answers, Observation& observation) {
  const RankId rank(context.bootstrap.rank());
  monitor.watch(&session, rank);
  if (rank.value == 0) submit_all(session, job, answers, observation);
  const Result<void> ended = session.run_executor(rank, engine);
  if (!ended.has_value()) context.on_failure(ended.error());
  monitor.forget();
  return ended;
}

/// What there is to say of the run, all ranks together. @collective @blocking
Result<RunFacts> facts_of(const RankContext& context, const Plan& plan, const LoadedModel& loaded,
                          const device::Communicator* communicator,
                          const std::vector<std::pair<std::string, double>>& startup) {
  LOCKSTEP_TRY(const auto memories,
               context.bootstrap.exchange(to_text(memory_of(loaded.shard->store(), loaded.peak_loading))));
  RunFacts facts{.world_size = context.bootstrap.size(),
                 .threads = plan.threads,
                 .backend = context.run.backend,
                 .communicator = communicator == nullptr ? "none" : communicator->name(),
                 .slots = plan.model.shard.slots,
                 .chunk = plan.model.shard.chunk,
                 .capacity = plan.model.shard.capacity,
                 .memory = {},
                 .startup = startup,
                 .graphs_expected = loaded.graphs_expected,
                 .graphs = loaded.graphs->compiled(),
                 .graphs_after_warmup = loaded.graphs->compiled_after_close(),
                 .drafts = std::nullopt,
                 .group = std::nullopt};
  if (loaded.speculative != nullptr) facts.drafts = loaded.speculative->statistics();
  for (const std::string& memory : memories) facts.memory.push_back(parse_memory(memory));
  return facts;
}

}  // namespace

Result<void> run_rank(const GenerateCommand& command, RankContext given, RankMonitor& monitor) {
  Observation observation(command.observe, given);
  const RankContext& context = observation.context();
  Job job;
  context.phases.enter("plan");
  LOCKSTEP_TRY(const Plan plan, make_plan(command, context, job));
  LOCKSTEP_TRY_VOID(observation.begin(plan));
  for (const std::string& warning : job.warnings) context.log.warning("{}", warning);

  context.phases.enter("connect");
  LOCKSTEP_TRY(const ChosenCommunicator chosen, connect(context, plan));
  device::Communicator* communicator = observation.timed(chosen.communicator.get());
  log_plan(context, plan, chosen);

  LOCKSTEP_TRY(const LoadedModel loaded, load_model(context, plan, communicator));

  context.phases.enter("session");
  std::unique_ptr<actors::Session> own_session;
  LOCKSTEP_TRY(actors::Session * session, open_session(context, plan, own_session));
  context.phases.enter("run");
  const bool is_first = context.bootstrap.rank() == 0;
  if (is_first) context.log.info("{}", phases_line(context.phases));
  const auto startup = context.phases.seconds();

  Answers answers(context.clock, {.rows = job.answers,
                                  .tokenizer = job.tokenizer.get(),
                                  .stop_strings = job.stop_strings,
                                  .max_time = job.max_time,
                                  .show = show_on_stdout(command, job),
                                  .as_made = job.answers_as_made});
  shards::Engine& engine = observation.timed(*loaded.engine);
  LOCKSTEP_TRY_VOID(run_session(context, monitor, *session, engine, job, answers, observation));

  context.phases.enter("report");
  LOCKSTEP_TRY(RunFacts facts, facts_of(context, plan, loaded, communicator, startup));
  LOCKSTEP_TRY(facts.group, observation.gather());
  if (is_first) {
    adopt_all(job, answers);
    LOCKSTEP_TRY_VOID(check_answers(answers));
    LOCKSTEP_TRY_VOID(write_report(command, context, job, plan, answers, facts));
  }
  return observation.write(facts.group, facts.memory, answers.tokens());
}

}  // namespace lockstep::launcher
