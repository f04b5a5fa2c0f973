#include "launcher/rank_run.h"

#include <fmt/format.h>

#include <unistd.h>
#include <cstdio>

#include "launcher/agreements.h"
#include "launcher/answers.h"
#include "launcher/atomic_file.h"
#include "launcher/job.h"
#include "launcher/logits_file.h"
#include "launcher/report.h"
#include "launcher/wiring.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/device/graph_register.h"
#include "runtime/graph/passes.h"

namespace lockstep::launcher {
namespace {

using partition::Partition;

/// Where this rank is in the plan: made before weights are read.
struct Plan {
  checkpoint::ModelSpec spec;
  Partition partition;
  std::vector<transport::RankPlace> places;
  shards::ShardOptions shard;
  int threads = 1;
};

/// What keeps a loaded shard alive, in order of destruction.
struct LoadedShard {
  std::unique_ptr<device::Backend> backend;
  std::unique_ptr<device::GraphRegister> graphs;
  std::unique_ptr<shards::Shard> shard;
};

Duration seconds(double s) { return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s)); }

transport::WaitOptions wait_options(const RankContext& context) {
  return {.abort = &context.abort, .clock = &context.clock, .deadline = seconds(context.command.run.deadline_s)};
}

Result<void> check_world_size(const RankContext& context) {
  const std::optional<int> tp = context.command.model.tp;
  if (!tp || *tp == context.bootstrap.size()) return ok();
  return Error{
      ErrorKind::kFailedPrecondition,
      fmt::format("[launcher] --tp: found {}, expected {} (the ranks that were started); start as many ranks, or "
                  "leave --tp away",
                  *tp, context.bootstrap.size())};
}

Result<void> check_budget(const RunOptions& run, const shards::ShardGraphs& graphs) {
  if (!run.memory_budget) return ok();
  const graph::StepCost cost = graph::cost_of(graphs.decode);
  const int64_t needed = cost.weight_bytes + cost.state_bytes;
  if (needed <= *run.memory_budget) return ok();
  return Error{ErrorKind::kResourceExhausted,
               fmt::format("[launcher] --memory-budget: found {} ({} of weights and {} of states at full capacity), "
                           "expected at most {} on a rank; use more ranks, or lower --max-seq-len or --batch-size",
                           to_string(Bytes(needed)), to_string(Bytes(cost.weight_bytes)),
                           to_string(Bytes(cost.state_bytes)), to_string(Bytes(*run.memory_budget)))};
}

/// Config, partition and static sizes; rank 0 prepares the job on the way.
Result<Plan> make_plan(const RankContext& context, Job& job) {
  transport::Bootstrap& bootstrap = context.bootstrap;
  const GenerateCommand& command = context.command;
  Plan plan;
  JobSizes sizes;
  const auto locally = [&]() -> Result<void> {
    LOCKSTEP_TRY_VOID(check_world_size(context));
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
  LOCKSTEP_TRY(plan.places, bootstrap.places());
  plan.threads = command.run.threads.value_or(default_threads(plan.places, bootstrap.rank()));
  LOCKSTEP_TRY_VOID(transport::agree(bootstrap, "options and model",
                                     statement_before_weights(command, plan.spec, plan.partition, plan.shard)));
  return plan;
}

/// Weights and executables of this rank, agreed with the others.
Result<LoadedShard> load_shard(const RankContext& context, const Plan& plan, device::Communicator* communicator) {
  const GenerateCommand& command = context.command;
  LoadedShard loaded;
  std::unique_ptr<checkpoint::Checkpoint> checkpoint;
  const auto locally = [&]() -> Result<void> {
    LOCKSTEP_TRY(auto graphs, shards::build_graphs(plan.spec, plan.partition, context.bootstrap.rank(), plan.shard,
                                                   graph::default_passes()));
    LOCKSTEP_TRY_VOID(check_budget(command.run, graphs));
    LOCKSTEP_TRY(checkpoint, checkpoint::open_checkpoint(command.model.model));
    LOCKSTEP_TRY(loaded.backend, make_backend(command.run.backend, plan.threads));
    loaded.graphs = std::make_unique<device::GraphRegister>(
        *loaded.backend, command.run.strictness == Strictness::kStrict ? device::GraphRegister::AfterClose::kRefuse
                                                                       : device::GraphRegister::AfterClose::kCount);
    const shards::CheckpointWeights weights(*checkpoint);
    LOCKSTEP_TRY(loaded.shard,
                 shards::Shard::create(std::move(graphs), plan.shard, *loaded.graphs, communicator, weights));
    return ok();
  };
  LOCKSTEP_TRY_VOID(all_succeeded(context.bootstrap, locally()));
  loaded.graphs->close();
  LOCKSTEP_TRY_VOID(
      transport::agree(context.bootstrap, "graphs and weights", statement_after_weights(*checkpoint, *loaded.shard)));
  return loaded;
}

/// The session of this rank's process: made here between processes, shared between threads.
Result<actors::Session*> open_session(const RankContext& context, const Plan& plan,
                                      std::unique_ptr<actors::Session>& own) {
  if (context.shared_session != nullptr) return context.shared_session;
  transport::Bootstrap& bootstrap = context.bootstrap;
  actors::SessionOptions options = session_options(context.command, bootstrap.size());
  options.ranks = {{RankId(bootstrap.rank()), &context.abort}};
  const bool one_host = std::all_of(plan.places.begin(), plan.places.end(),
                                    [&](const auto& place) { return place.host == plan.places[0].host; });
  if (!one_host) options.bind_address = "0.0.0.0";
  actors::Address address;
  const auto host = [&]() -> Result<void> {
    if (bootstrap.rank() != 0) return ok();
    LOCKSTEP_TRY(own, actors::Session::host(options));
    address = own->address();
    if (!one_host) address.host = plan.places[0].host;
    return ok();
  };
  LOCKSTEP_TRY_VOID(all_succeeded(bootstrap, host()));
  LOCKSTEP_TRY(const auto told, bootstrap.exchange(fmt::format("{} {}", address.host, address.port)));
  if (bootstrap.rank() != 0) {
    const size_t space = told[0].rfind(' ');
    const actors::Address coordinator{told[0].substr(0, space),
                                      static_cast<uint16_t>(std::stoi(told[0].substr(space + 1)))};
    LOCKSTEP_TRY(own, actors::Session::join(options, coordinator));
  }
  return own.get();
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

Result<void> write_report(const RankContext& context, const Job& job, const Plan& plan, const Answers& answers,
                          const RunFacts& facts) {
  const GenerateCommand& command = context.command;
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
  context.log.info("{}", summary(answers, facts));
  return ok();
}

void log_plan(const RankContext& context, const Plan& plan, const ChosenCommunicator& chosen) {
  if (context.bootstrap.rank() != 0) return;
  const Log& log = context.log;
  for (const transport::RankPlace& place : plan.places) {
    log.info("rank {} on {}, cores {}", place.rank, place.host, fmt::join(place.cores, ","));
  }
  if (plan.partition.ranks() > 1) log.info("partition:\n{}", partition::to_text(plan.spec, plan.partition));
  for (const transport::Choice& choice : chosen.choices) {
    log.info("messages up to {} go by {} ({:.1f} us)", to_string(Bytes(choice.bytes)), choice.name,
             choice.microseconds);
  }
  log.info("{} slots of {} tokens, prefill chunks of {} rows, {}, {} threads a rank", plan.shard.slots,
           plan.shard.capacity, plan.shard.chunk, to_string(plan.shard.dtype), plan.threads);
}

std::string phases_line(const Phases& phases) {
  std::string line = "ready:";
  for (const auto& [name, s] : phases.seconds()) line += fmt::format(" {} {:.2f} s,", name, s);
  line.pop_back();
  return line;
}

}  // namespace

actors::SessionOptions session_options(const GenerateCommand& command, int size) {
  actors::SessionOptions options;
  options.size = size;
  options.detection =
      command.run.peer_detection == Detection::kOn ? actors::PeerDetection::kOn : actors::PeerDetection::kOff;
  options.hello_deadline = seconds(command.run.deadline_s);
  options.connect_deadline = seconds(command.run.deadline_s);
  return options;
}

Result<void> run_rank(RankContext context, RankMonitor& monitor) {
  const GenerateCommand& command = context.command;
  const bool is_first = context.bootstrap.rank() == 0;
  Job job;
  context.phases.enter("plan");
  LOCKSTEP_TRY(const Plan plan, make_plan(context, job));
  for (const std::string& warning : job.warnings) context.log.warning("{}", warning);

  context.phases.enter("connect");
  LOCKSTEP_TRY(const ChosenCommunicator chosen, make_communicator(command.run.communicator, context.bootstrap,
                                                                  context.threads, plan.places, wait_options(context)));
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
                 .graphs = loaded.graphs->compiled(),
                 .graphs_after_warmup = loaded.graphs->compiled_after_close()};
  for (const std::string& memory : memories) facts.memory.push_back(parse_memory(memory));
  LOCKSTEP_TRY_VOID(check_answers(answers));
  return write_report(context, job, plan, answers, facts);
}

void RankMonitor::watch(actors::Session* session, RankId rank, device::Communicator* communicator) {
  std::lock_guard lock(mutex_);
  session_ = session;
  rank_ = rank;
  communicator_ = communicator;
}

void RankMonitor::forget() {
  last_ = status();
  std::lock_guard lock(mutex_);
  session_ = nullptr;
  communicator_ = nullptr;
}

bool RankMonitor::cancel() {
  std::lock_guard lock(mutex_);
  if (session_ == nullptr) return false;
  session_->cancel();
  return true;
}

std::optional<RankMonitor::Status> RankMonitor::status() const {
  std::lock_guard lock(mutex_);
  if (session_ == nullptr) return last_;
  return Status{actors::to_string(session_->status(rank_)),
                communicator_ == nullptr ? device::OperationMark{} : communicator_->last_operation()};
}

}  // namespace lockstep::launcher
