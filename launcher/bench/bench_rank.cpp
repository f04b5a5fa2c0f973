#include "launcher/bench/bench_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "launcher/atomic_file.h"
#include "launcher/bench/bench_report.h"
#include "launcher/bench/limits_probe.h"
#include "launcher/bench/replay.h"
#include "launcher/generate/answers.h"
#include "launcher/ranks/agreements.h"
#include "launcher/ranks/gathering.h"
#include "launcher/ranks/serving_spec.h"
#include "launcher/ranks/step_clock.h"
#include "runtime/trace/chrome_trace.h"
#include "runtime/trace/rank_report.h"
#include "runtime/trace/timed_communicator.h"

namespace lockstep::launcher {
namespace {

std::filesystem::path config_of(const BenchCommand& command) {
  return command.random_weights ? command.config : command.model.model / "config.json";
}

/// Static sizes and model of the benchmark; needs no job of rank 0.
Result<Plan> make_plan(const BenchCommand& command, const RankContext& context) {
  Plan plan;
  const auto locally = [&]() -> Result<void> {
    LOCKSTEP_TRY_VOID(check_world_size(command.model.tp, context.bootstrap.size()));
    if (command.invariance_cost && context.run.backend == "neuron") {
      return Error{
          ErrorKind::kUnsupported,
          "[launcher] --invariance-cost: found --backend neuron, expected one whose sums are invariant; leave it "
          "away"};
    }
    LOCKSTEP_TRY(plan.model.spec, serving_spec(command.model, config_of(command)));
    LOCKSTEP_TRY(DividedModel divided,
                 divide_model(command.model, plan.model.spec, context.bootstrap.size(), command.shape.batch));
    plan.model.partition = std::move(divided.partition);
    if (context.bootstrap.rank() == 0 && !divided.warning.empty()) context.log.warning("warning: {}", divided.warning);
    const int64_t needed = command.shape.prompt_tokens + command.shape.new_tokens - 1;  // the last is never cached
    const int64_t capacity = command.model.max_seq_len.value_or(needed);
    const int64_t most = longest_sequence(plan.model.spec).value_or(capacity);
    if (capacity < needed || capacity > most) {
      return Error{ErrorKind::kInvalidArgument,
                   fmt::format("[launcher] cannot size the slots: found {} tokens, expected {} (--prompt-tokens and "
                               "--new-tokens) to {} (max_position_embeddings of the model); change them",
                               capacity, needed, most)};
    }
    LOCKSTEP_TRY(plan.model.shard, shard_options(command.model, plan.model.spec, command.shape.batch, capacity));
    const int64_t rows = command.shape.prompt_tokens * command.shape.batch;
    if (plan.model.shard.context_buckets.empty()) plan.model.shard.chunk = std::min(plan.model.shard.chunk, rows);
    if (!command.random_weights) plan.model.checkpoint = command.model.model;
    return ok();
  };
  LOCKSTEP_TRY_VOID(all_succeeded(context.bootstrap, locally()));
  LOCKSTEP_TRY_VOID(find_places(context, plan));
  LOCKSTEP_TRY_VOID(transport::agree(
      context.bootstrap, "options and model",
      fmt::format("--prompt-tokens {}\n--new-tokens {}\n--repeats {}\n--warmup {}\n--replay {}\n{}",
                  command.shape.prompt_tokens, command.shape.new_tokens, command.repeats, command.warmup,
                  command.replay,
                  statement_of_plan(context.run, plan.model.spec, plan.model.partition, plan.model.shard))));
  return plan;
}

/// Token ids that are the same in every run.
std::vector<int32_t> random_prompt(int64_t row, int64_t tokens, int64_t vocabulary) {
  std::vector<int32_t> ids;
  uint64_t state = static_cast<uint64_t>(row) + 1;
  for (int64_t i = 0; i < tokens; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    ids.push_back(static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(vocabulary)));
  }
  return ids;
}

/// Steps of a repetition, at most: while prompts remain, decoding takes turns with them.
int64_t most_decode_steps(const BenchShape& shape) { return shape.batch * shape.new_tokens; }
int64_t most_prefill_steps(const BenchShape& shape, int64_t chunk) {
  return shape.batch * (shape.prompt_tokens / chunk + 2);
}

/// Collectives of a repetition, with room for backends that cut large ones and for the confirmations of schedules.
size_t most_collectives(const BenchShape& shape, const Plan& plan, const shards::ShardGraphs& graphs) {
  constexpr int64_t kParts = 4;
  const int64_t decode = most_decode_steps(shape) * (graph::cost_of(graphs.decode.back()).collectives + 1);
  const int64_t prefill =
      most_prefill_steps(shape, plan.model.shard.chunk) * (graph::cost_of(graphs.prefill.back()).collectives + 1);
  return static_cast<size_t>(kParts * (decode + prefill));
}

/// One rank's benchmark once weights are loaded. Lives on the executor's thread.
class Bench {
 public:
  Bench(const BenchCommand& command, const RankContext& context, const Plan& plan, RankMonitor& monitor,
        shards::Shard& shard, trace::CollectiveLog& collectives)
      : command_(command),
        context_(context),
        plan_(plan),
        monitor_(monitor),
        shard_(shard),
        collectives_(collectives),
        recorder_(shard),
        steps_(recorder_, collectives, context.clock,
               static_cast<size_t>(most_decode_steps(command.shape) +
                                   most_prefill_steps(command.shape, plan.model.shard.chunk))) {}

  /// Opens the session of the next repetition. @collective @blocking
  Result<void> open() {
    own_session_.reset();
    if (command_.kv == KvMemory::kFresh) shard_.store().release_caches();
    LOCKSTEP_TRY(session_, open_session(context_, own_session_));
    return context_.bootstrap.barrier();
  }

  /// Runs it. What only rank 0 knows stays zero elsewhere. @collective @blocking
  Result<Repetition> repeat();
  /// Keeps what `repeat` asks of the engine, for `replay`.
  void record() { recorder_.start(); }
  void end_record() { recorded_ = recorder_.stop(); }
  /// The recorded steps once more, by themselves. @collective @blocking
  Result<PhaseSeconds> replay();
  int64_t dropped() const { return collectives_.dropped(); }
  /// The last repetition as Chrome trace events, on rank 0.
  std::string timeline() const { return trace::to_chrome_json({.ranks = timelines_}); }

 private:
  bool is_first() const { return context_.bootstrap.rank() == 0; }
  void submit_all(Answers& answers);
  Result<trace::RankTimeline> run_timed(Answers& answers);
  void add_split(Repetition& repetition) const;
  PhaseSeconds seconds_of_steps() const;

  const BenchCommand& command_;
  const RankContext& context_;
  const Plan& plan_;
  RankMonitor& monitor_;
  shards::Shard& shard_;
  trace::CollectiveLog& collectives_;
  CallRecorder recorder_;
  EngineCalls recorded_;
  StepClock steps_;
  std::vector<trace::RankTimeline> timelines_;  // of the last repetition, on rank 0
  std::unique_ptr<actors::Session> own_session_;
  actors::Session* session_ = nullptr;
};

void Bench::submit_all(Answers& answers) {
  const BenchShape& shape = command_.shape;
  answers.mark_start();
  for (int64_t row = 0; row < shape.batch; ++row) {
    shards::SlotParameters parameters;
    parameters.max_new_tokens = static_cast<int32_t>(shape.new_tokens);
    session_->submit({.id = RequestId(row),
                      .ids = random_prompt(row, shape.prompt_tokens, plan_.model.spec.vocabulary),
                      .parameters = parameters},
                     answers);
  }
  session_->finish();
}

/// Runs the session and says when what happened on this rank. @collective @blocking
Result<trace::RankTimeline> Bench::run_timed(Answers& answers) {
  const RankId rank(context_.bootstrap.rank());
  const transport::RankPlace& place = plan_.places[static_cast<size_t>(rank.value)];
  trace::RankTimeline mine{.rank = rank.value, .host = place.host, .cores = place.cores};
  const bool has_one_clock = on_one_host(plan_.places);
  if (!has_one_clock) {
    LOCKSTEP_TRY(mine.pings_at_begin, ping(context_.bootstrap, context_.clock));
  }
  steps_.restart();
  monitor_.watch(session_, rank);
  if (is_first()) submit_all(answers);
  const Result<void> ended = session_->run_executor(rank, steps_);
  if (!ended.has_value()) context_.on_failure(ended.error());
  monitor_.forget();
  if (!ended.has_value()) return ended.error();
  if (!has_one_clock) {
    LOCKSTEP_TRY(mine.pings_at_end, ping(context_.bootstrap, context_.clock));
  }
  mine.steps.assign(steps_.steps().begin(), steps_.steps().end());
  mine.collectives.assign(collectives_.entries().begin(), collectives_.entries().end());
  mine.dropped_collectives = collectives_.dropped();
  mine.step_totals = steps_.totals();
  mine.collective_totals = collectives_.totals();
  return mine;
}

Result<Repetition> Bench::repeat() {
  Answers answers(context_.clock, {.rows = static_cast<size_t>(command_.shape.batch)});
  LOCKSTEP_TRY(const trace::RankTimeline mine, run_timed(answers));
  LOCKSTEP_TRY(timelines_, gather_timelines(context_.bootstrap, mine));
  Repetition repetition;
  if (!is_first()) return repetition;
  for (const Answer& answer : answers.rows()) {
    if (answer.error) return *answer.error;
  }
  add_split(repetition);
  const auto [prefill_s, decode_s] = seconds_of_steps();
  repetition.prefill_s = prefill_s;
  repetition.decode_s = decode_s;
  repetition.ttft_s = answers.ttft_s().value_or(0.0);
  repetition.tpot_s = answers.tpot_s().value_or(0.0);
  repetition.decode_tokens = answers.tokens() - command_.shape.batch;
  return repetition;
}

Result<PhaseSeconds> Bench::replay() {
  LOCKSTEP_TRY_VOID(context_.bootstrap.barrier());
  steps_.restart();
  LOCKSTEP_TRY_VOID(launcher::replay(recorded_, steps_));
  return seconds_of_steps();
}

PhaseSeconds Bench::seconds_of_steps() const {
  return {to_seconds(trace::phase_time(steps_.steps(), trace::StepPhase::kPrefill)),
          to_seconds(trace::phase_time(steps_.steps(), trace::StepPhase::kDecode))};
}

/// Where every rank's time went.
void Bench::add_split(Repetition& repetition) const {
  const trace::GroupReport group = trace::report_of(timelines_);
  for (const trace::RankReport& rank : group.ranks) {
    repetition.ranks.push_back({rank.prefill.split, rank.decode.split});
    repetition.clock_error_s = std::max(repetition.clock_error_s, rank.clock_error_s);
  }
  repetition.stragglers = group.stragglers;
}

/// Opens a session and runs one repetition. @collective @blocking
Result<PhaseSeconds> seconds_of(Bench& bench) {
  LOCKSTEP_TRY_VOID(bench.open());
  LOCKSTEP_TRY(const Repetition repetition, bench.repeat());
  return PhaseSeconds{repetition.prefill_s, repetition.decode_s};
}

/// Adds warm-up and repetitions, each between two probes, to `report`. @collective @blocking
/// `fast` repeats the same with the other order of sums, before and after `bench` in turn; null: nobody asked.
Result<void> run_all(const BenchCommand& command, const RankContext& context, Bench& bench, Bench* fast,
                     LimitsProbe& probe, Limits before, BenchReport& report) {
  for (int i = 0; i < command.warmup + command.repeats; ++i) {
    context.phases.enter(i < command.warmup ? "warm-up" : "run");
    PhaseSeconds beside;
    if (fast != nullptr && i % 2 == 1) {
      LOCKSTEP_TRY(beside, seconds_of(*fast));
    }
    if (i > 0) LOCKSTEP_TRY_VOID(bench.open());
    if (i == 0 && command.replay) bench.record();
    LOCKSTEP_TRY(Repetition repetition, bench.repeat());
    if (fast != nullptr && i % 2 == 0) {
      LOCKSTEP_TRY(beside, seconds_of(*fast));
    }
    if (fast != nullptr) repetition.fast = beside;
    if (i == 0) bench.end_record();
    if (command.replay) {
      LOCKSTEP_TRY(repetition.replay, bench.replay());
    }
    LOCKSTEP_TRY(const Limits after, probe.measure());
    repetition.limits = mean_of(before, after);
    before = after;
    context.log.info("{} {}: prefill {:.3f} s, decode {:.3f} s for {} tokens; probes {:.1f} GB/s, {:.0f} GFLOP/s",
                     i < command.warmup ? "warm-up" : "repetition", i < command.warmup ? i : i - command.warmup,
                     repetition.prefill_s, repetition.decode_s, repetition.decode_tokens,
                     repetition.limits.read_bytes_per_s * 1e-9, repetition.limits.flops_per_s * 1e-9);
    if (i == 0) report.very_first_ttft_s = repetition.ttft_s;
    if (i >= command.warmup) report.repetitions.push_back(std::move(repetition));
  }
  return ok();
}

/// What all ranks read in a decode step. @collective @blocking
Result<DecodeBytes> group_decode_bytes(transport::Bootstrap& bootstrap, const graph::Graph& decode,
                                       const BenchShape& shape) {
  const DecodeBytes own = decode_bytes(decode, shape);
  LOCKSTEP_TRY(const auto told, bootstrap.exchange(fmt::format("{} {}", own.weights, own.cache)));
  DecodeBytes all;
  for (const std::string& text : told) {
    DecodeBytes rank;
    std::istringstream(text) >> rank.weights >> rank.cache;
    all += rank;
  }
  return all;
}

/// Table, JSON and timeline, on rank 0.
Result<void> write_report(const BenchCommand& command, const RankContext& context, const BenchReport& report,
                          Bench& bench) {
  fmt::print("{}", to_table(report));
  if (report.has_bad_probe()) {
    context.log.warning("bad probe: a speed is above {} of its limit; run again on a quiet machine", kBadProbeRatio);
  }
  if (command.json) LOCKSTEP_TRY_VOID(write_text_file(*command.json, to_json(report)));
  return command.trace ? write_text_file(*command.trace, bench.timeline()) : ok();
}

/// What the model should do on the machine that was measured.
Result<cost::Prediction> prediction_of(const Plan& plan, const BenchReport& report) {
  LOCKSTEP_TRY(const cost::GroupWork group, cost::group_work(plan.model.spec, plan.model.partition, plan.model.shard));
  return cost::predict(group, report.shape, measured_machine(report));
}

/// The phases of start-up: what this command adds is not one.
std::vector<std::pair<std::string, double>> startup_of(const Phases& phases) {
  auto startup = phases.seconds();
  std::erase_if(startup, [](const auto& phase) { return phase.first == "probe"; });
  return startup;
}

/// Room for the collectives of a repetition: none in a group of one.
Result<size_t> room_for_collectives(const BenchCommand& command, const RankContext& context, const Plan& plan) {
  if (context.bootstrap.size() == 1) return 0;
  LOCKSTEP_TRY(const shards::ShardGraphs graphs, shards::build_graphs(plan.model.spec, plan.model.partition,
                                                                      context.bootstrap.rank(), plan.model.shard, {}));
  return most_collectives(command.shape, plan, graphs);
}

/// A communicator that records when each collective ran; null in a group of one.
std::unique_ptr<trace::TimedCommunicator> timed(const RankContext& context, const ChosenCommunicator& chosen,
                                                trace::CollectiveLog& collectives) {
  if (!chosen.communicator) return nullptr;
  return std::make_unique<trace::TimedCommunicator>(*chosen.communicator, context.clock, collectives);
}

/// The same model with fast numerics.
struct FastModel {
  Plan plan;
  LoadedModel loaded;
};

/// Null unless the command asks what invariance costs. @collective @blocking
Result<std::unique_ptr<FastModel>> load_fast(const BenchCommand& command, const RankContext& context, const Plan& plan,
                                             device::Communicator* communicator) {
  if (!command.invariance_cost) return std::unique_ptr<FastModel>();
  auto fast = std::make_unique<FastModel>(FastModel{plan, {}});
  fast->plan.model.partition.numerics = partition::Numerics::kFast;
  LOCKSTEP_TRY(fast->loaded, load_model(context, fast->plan, communicator));
  return fast;
}

/// What the plan tells, before anything ran.
BenchReport report_of(const BenchCommand& command, const RankContext& context, const Plan& plan) {
  BenchReport report;
  report.model = (command.random_weights ? command.config : command.model.model).string();
  report.backend = context.run.backend;
  report.dtype = std::string(to_string(plan.model.shard.dtype));
  if (plan.model.spec.int8_group > 0) report.dtype += fmt::format(" ({} weights)", weights_in_words(plan.model.spec));
  report.world_size = context.bootstrap.size();
  report.threads = plan.threads;
  report.shape = command.shape;
  report.prefill_chunk = plan.model.shard.chunk;
  report.max_seq_len = plan.model.shard.capacity;
  report.flops_per_token = flops_per_token(plan.model.spec, command.shape.prompt_tokens);
  report.kv = command.kv == KvMemory::kFresh ? "fresh" : "kept";
  report.decode_flops_per_token = decode_flops_per_token(plan.model.spec, command.shape);
  report.one_clock = on_one_host(plan.places);
  return report;
}

}  // namespace

Result<void> run_bench_rank(const BenchCommand& command, RankContext context, RankMonitor& monitor) {
  context.phases.enter("plan");
  LOCKSTEP_TRY(const Plan plan, make_plan(command, context));
  BenchReport report = report_of(command, context, plan);
  context.phases.enter("connect");
  LOCKSTEP_TRY(const ChosenCommunicator chosen, connect(context, plan));
  log_plan(context, plan, chosen);
  LOCKSTEP_TRY(const size_t room, room_for_collectives(command, context, plan));
  trace::CollectiveLog collectives(room);
  const auto communicator = timed(context, chosen, collectives);
  report.communicator = communicator == nullptr ? "none" : communicator->name();
  for (const transport::Choice& choice : chosen.choices) {
    report.collectives.push_back({choice.bytes, choice.microseconds * 1e-6});
  }
  LOCKSTEP_TRY(const LoadedModel loaded, load_model(context, plan, communicator.get()));

  context.phases.enter("probe");
  LOCKSTEP_TRY(LimitsProbe probe, LimitsProbe::create(context, plan, command.probe_bytes));
  LOCKSTEP_TRY(const Limits limits, probe.measure());
  report.flops_precision = std::string(probe.precision());
  Bench bench(command, context, plan, monitor, *loaded.shard, collectives);
  LOCKSTEP_TRY(const std::unique_ptr<FastModel> fast, load_fast(command, context, plan, communicator.get()));
  std::optional<Bench> fast_bench;
  if (fast) fast_bench.emplace(command, context, fast->plan, monitor, *fast->loaded.shard, collectives);
  context.phases.enter("session");
  LOCKSTEP_TRY_VOID(bench.open());
  context.phases.close();
  report.startup = startup_of(context.phases);
  LOCKSTEP_TRY_VOID(run_all(command, context, bench, fast_bench ? &*fast_bench : nullptr, probe, limits, report));

  context.phases.enter("report");
  report.dropped_collectives = bench.dropped();
  LOCKSTEP_TRY(const auto memories,
               context.bootstrap.exchange(to_text(memory_of(loaded.shard->store(), loaded.loading))));
  for (const std::string& memory : memories) report.memory.push_back(parse_memory(memory));
  LOCKSTEP_TRY(const DecodeBytes bytes,
               group_decode_bytes(context.bootstrap, loaded.shard->graphs().decode.back(), command.shape));
  report.bytes_per_token = bytes_per_token(bytes, command.shape);
  const bool is_first = context.bootstrap.rank() == 0;
  if (is_first) {
    LOCKSTEP_TRY(report.predicted, prediction_of(plan, report));
  }
  // Large files take a while: the other ranks wait here, where the deadline is the user's.
  return all_succeeded(context.bootstrap, is_first ? write_report(command, context, report, bench) : ok());
}

}  // namespace lockstep::launcher
