#include "launcher/measure/bench/bench_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "engine/drivers.h"
#include "launcher/measure/bench/bench_report.h"
#include "launcher/measure/bench/limits_probe.h"
#include "launcher/measure/bench/repeater.h"
#include "launcher/ranks/agreements.h"
#include "launcher/ranks/serving_spec.h"
#include "runtime/core/atomic_file.h"
#include "runtime/trace/timed_communicator.h"

namespace lockstep::launcher {
namespace {

std::filesystem::path config_of(const BenchCommand& command) {
  return command.random_weights ? command.config : command.model.model / "config.json";
}

/// What invariant sums cost can be asked of a backend that has them.
Result<void> check_invariance_cost(const BenchCommand& command) {
  if (!command.invariance_cost) return ok();
  LOCKSTEP_TRY(const device::BackendDriver* driver, engine::find_driver(command.run.backend));
  if (driver->capabilities().invariant_sums) return ok();
  return Error{ErrorKind::kUnsupported,
               fmt::format("[launcher] --invariance-cost: found --backend {}, expected one whose sums are invariant; "
                           "leave it out",
                           command.run.backend)};
}

/// Static sizes and model of the benchmark; needs no job of rank 0.
Result<Plan> make_plan(const BenchCommand& command, const RankContext& context) {
  Plan plan;
  const auto locally = [&]() -> Result<void> {
    LOCKSTEP_TRY_VOID(check_world_size(command.model.tp, context.bootstrap.size()));
    LOCKSTEP_TRY_VOID(check_backend(context.run));
    LOCKSTEP_TRY_VOID(check_invariance_cost(command));
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
  LOCKSTEP_TRY_VOID(
      agree_on_plan(context.bootstrap,
                    fmt::format("--prompt-tokens {}\n--new-tokens {}\n--repeats {}\n--warmup {}\n--replay {}\n{}",
                                command.shape.prompt_tokens, command.shape.new_tokens, command.repeats, command.warmup,
                                command.replay, statement_of_plan(context.run, plan)),
                    config_of(command)));
  LOCKSTEP_TRY_VOID(find_own_head(context, plan.model));
  return plan;
}

/// Opens a session and runs one repetition. @collective @blocking
Result<PhaseSeconds> seconds_of(Repeater& repeater) {
  LOCKSTEP_TRY_VOID(repeater.open());
  LOCKSTEP_TRY(const Repetition repetition, repeater.repeat());
  return PhaseSeconds{repetition.prefill_s, repetition.decode_s};
}

/// Adds warm-up and repetitions, each between two probes, to `report`. @collective @blocking
/// `fast` repeats the same with the other order of sums, before and after `repeater` in turn; null: nobody asked.
Result<void> run_all(const BenchCommand& command, const RankContext& context, Repeater& repeater, Repeater* fast,
                     LimitsProbe& probe, Limits before, BenchReport& report) {
  for (int i = 0; i < command.warmup + command.repeats; ++i) {
    context.phases.enter(i < command.warmup ? "warm-up" : "run");
    PhaseSeconds beside;
    if (fast != nullptr && i % 2 == 1) {
      LOCKSTEP_TRY(beside, seconds_of(*fast));
    }
    if (i > 0) LOCKSTEP_TRY_VOID(repeater.open());
    if (i == 0 && command.replay) repeater.record();
    LOCKSTEP_TRY(Repetition repetition, repeater.repeat());
    if (fast != nullptr && i % 2 == 0) {
      LOCKSTEP_TRY(beside, seconds_of(*fast));
    }
    if (fast != nullptr) repetition.fast = beside;
    if (i == 0) repeater.end_record();
    if (command.replay) {
      LOCKSTEP_TRY(repetition.replay, repeater.replay());
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
                          Repeater& repeater) {
  fmt::print("{}", to_table(report));
  if (report.has_bad_probe()) {
    context.log.warning("bad probe: the median of a speed is above {} of its limit; run again on a quiet machine",
                        kBadProbeRatio);
  }
  if (command.json) LOCKSTEP_TRY_VOID(write_text_file(*command.json, to_json(report)));
  return command.trace ? write_text_file(*command.trace, repeater.timeline()) : ok();
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
  Repeater repeater(command, context, plan, monitor, *loaded.shard, collectives);
  LOCKSTEP_TRY(const std::unique_ptr<FastModel> fast, load_fast(command, context, plan, communicator.get()));
  std::optional<Repeater> fast_repeater;
  if (fast) fast_repeater.emplace(command, context, fast->plan, monitor, *fast->loaded.shard, collectives);
  context.phases.enter("session");
  LOCKSTEP_TRY_VOID(repeater.open());
  context.phases.close();
  report.startup = startup_of(context.phases);
  LOCKSTEP_TRY_VOID(
      run_all(command, context, repeater, fast_repeater ? &*fast_repeater : nullptr, probe, limits, report));

  context.phases.enter("report");
  report.dropped_collectives = repeater.dropped();
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
  return all_succeeded(context.bootstrap, is_first ? write_report(command, context, report, repeater) : ok());
}

}  // namespace lockstep::launcher
