#include "launcher/measure/bench/bench_rank.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "engine/drivers.h"
#include "engine/group/communicators.h"
#include "engine/model/load.h"
#include "engine/model/plan.h"
#include "engine/model/served_spec.h"
#include "engine/observe/rank_cores.h"
#include "engine/observe/rank_memory.h"
#include "engine/start_log.h"
#include "launcher/measure/bench/bench_report.h"
#include "launcher/measure/bench/limits_probe.h"
#include "launcher/measure/bench/repeater.h"
#include "runtime/core/atomic_file.h"
#include "runtime/trace/timed_communicator.h"

namespace lockstep::launcher {
namespace {

Result<Model> open_model(const BenchCommand& command) {
  if (command.random_weights) return Model::from_config(command.config, command.model.options);
  return Model::open(command.model.directory, command.model.options);
}

/// Checks that the backend has invariant sums if the command measures their cost.
Result<void> check_invariance_cost(const BenchCommand& command, const device::BackendDriver& driver) {
  if (!command.invariance_cost || driver.capabilities().invariant_sums) return ok();
  return Error{ErrorKind::kUnsupported,
               fmt::format("[launcher] --invariance-cost: found --backend {}, expected one whose sums are invariant; "
                           "omit it",
                           driver.name())};
}

/// The engine options of the benchmark: slots for its sequences, with the capacity that they reach.
Result<EngineOptions> engine_options(const BenchCommand& command, const Model& model) {
  const BenchShape& shape = command.shape;
  const int64_t needed = shape.prompt_tokens + shape.new_tokens - 1;  // the last token is never cached
  EngineOptions options = command.engine;
  options.slots = shape.batch;
  options.capacity = options.capacity.value_or(needed);
  options.choosers = Choosers::kNone;
  const int64_t most = model.longest_sequence().value_or(*options.capacity);
  if (*options.capacity < needed || *options.capacity > most) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[launcher] cannot size the slots: found {} tokens, expected {} (--prompt-tokens and "
                             "--new-tokens) to {} (max_position_embeddings of the model); change them",
                             *options.capacity, needed, most)};
  }
  options.prefill_chunk = std::min(options.prefill_chunk, shape.prompt_tokens * shape.batch);
  return options;
}

/// The state that is known before weights are read.
struct Setting {
  std::optional<Model> model;
  EngineOptions options;
  const device::BackendDriver* driver = nullptr;
};

Result<Setting> prepare(const BenchCommand& command) {
  Setting setting;
  LOCKSTEP_TRY(setting.driver, engine::find_driver(command.engine.backend));
  LOCKSTEP_TRY_VOID(check_invariance_cost(command, *setting.driver));
  LOCKSTEP_TRY(setting.model, open_model(command));
  LOCKSTEP_TRY(setting.options, engine_options(command, *setting.model));
  return setting;
}

/// The plan that all ranks agree on. @collective @blocking
Result<model::Plan> agree_on_plan(const BenchCommand& command, group::Member& member, const Setting& setting) {
  LOCKSTEP_TRY_VOID(member.agree(
      "options", fmt::format("--prompt-tokens {}\n--new-tokens {}\n--repeats {}\n--warmup {}\n--replay {}\n",
                             command.shape.prompt_tokens, command.shape.new_tokens, command.repeats, command.warmup,
                             command.replay)));
  return model::make_plan(member, *setting.model, setting.options, *setting.driver);
}

/// Opens a session and runs one repetition. @collective @blocking
Result<PhaseSeconds> seconds_of(Repeater& repeater) {
  LOCKSTEP_TRY_VOID(repeater.open());
  LOCKSTEP_TRY(const Repetition repetition, repeater.repeat());
  return PhaseSeconds{repetition.prefill_s, repetition.decode_s};
}

/// Adds warm-up and repetitions, each with probes before, during and after it, to `report`. `fast` repeats them with
/// the other order of sums, alternately before and after `repeater`; null: not requested. @collective @blocking
Result<void> run_all(const BenchCommand& command, group::Member& member, Repeater& repeater, Repeater* fast,
                     LimitsProbe& probe, BenchReport& report) {
  for (int i = 0; i < command.warmup + command.repeats; ++i) {
    member.phases().enter(i < command.warmup ? "warm-up" : "run");
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
    LOCKSTEP_TRY_VOID(probe.take());
    LOCKSTEP_TRY(repetition.limits, probe.limits());
    member.log().info("{} {}: prefill {:.3f} s, decode {:.3f} s for {} tokens; probes {:.1f} GB/s, {:.0f} GFLOP/s",
                      i < command.warmup ? "warm-up" : "repetition", i < command.warmup ? i : i - command.warmup,
                      repetition.prefill_s, repetition.decode_s, repetition.decode_tokens,
                      repetition.limits.read_bytes_per_s * 1e-9, repetition.limits.flops_per_s * 1e-9);
    if (i == 0) report.very_first_ttft_s = repetition.ttft_s;
    if (i >= command.warmup) report.repetitions.push_back(std::move(repetition));
  }
  return ok();
}

/// The bytes that all ranks read in a decode step. @collective @blocking
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

/// Writes table, JSON and timeline, on rank 0.
Result<void> write_report(const BenchCommand& command, group::Member& member, const BenchReport& report,
                          Repeater& repeater) {
  fmt::print("{}", to_table(report));
  if (const std::vector<std::string> ratios = report.void_ratios(); !ratios.empty()) {
    member.log().warning(
        "bad probe: found a median of {} above {}, expected a limit that no step exceeds; run again on "
        "a quiet machine",
        fmt::join(ratios, " and "), kMostRatio);
  }
  if (command.json) LOCKSTEP_TRY_VOID(write_text_file(*command.json, to_json(report)));
  return command.trace ? write_text_file(*command.trace, repeater.timeline(report.communicator)) : ok();
}

/// The predicted speed of the model on the measured machine.
Result<cost::Prediction> prediction_of(const model::Plan& plan, const BenchReport& report) {
  LOCKSTEP_TRY(const cost::GroupWork group, cost::group_work(plan.model.spec, plan.model.partition, plan.model.shard));
  return cost::predict(group, report.shape, measured_machine(report));
}

/// The phases of start-up, without those of this command.
std::vector<std::pair<std::string, double>> startup_of(const group::RunPhases& phases) {
  auto startup = phases.seconds();
  std::erase_if(startup, [](const auto& phase) { return phase.first == "probe"; });
  return startup;
}

/// Capacity for the collectives of a repetition: zero in a group of one.
Result<size_t> room_for_collectives(const BenchCommand& command, const group::Member& member, const model::Plan& plan) {
  if (member.bootstrap().size() == 1) return 0;
  LOCKSTEP_TRY(const shards::ShardGraphs graphs, shards::build_graphs(plan.model.spec, plan.model.partition,
                                                                      member.bootstrap().rank(), plan.model.shard, {}));
  return most_collectives(command.shape, plan, graphs);
}

/// A communicator that records when each collective ran; null in a group of one.
std::unique_ptr<trace::TimedCommunicator> timed(const group::Member& member, const group::ChosenCommunicator& chosen,
                                                trace::CollectiveLog& collectives) {
  if (!chosen.communicator) return nullptr;
  return std::make_unique<trace::TimedCommunicator>(*chosen.communicator, member.clock(), collectives);
}

/// The same model with fast numerics.
struct FastModel {
  model::Plan plan;
  model::LoadedModel loaded;
};

/// Null unless the command measures the cost of invariance. @collective @blocking
Result<std::unique_ptr<FastModel>> load_fast(const BenchCommand& command, group::Member& member, const Setting& setting,
                                             const model::Plan& plan, device::Communicator* communicator) {
  if (!command.invariance_cost) return std::unique_ptr<FastModel>();
  auto fast = std::make_unique<FastModel>(FastModel{plan, {}});
  fast->plan.model.partition.numerics = partition::Numerics::kFast;
  LOCKSTEP_TRY(fast->loaded, model::load(member, fast->plan, setting.options, *setting.driver, communicator));
  return fast;
}

/// The report's facts from the plan, before anything runs.
Result<BenchReport> report_of(const BenchCommand& command, const group::Member& member, const model::Plan& plan) {
  BenchReport report;
  report.model = (command.random_weights ? command.config : command.model.directory).string();
  report.backend = command.engine.backend;
  report.dtype = std::string(to_string(plan.model.shard.dtype));
  if (plan.model.spec.formats.any())
    report.dtype += fmt::format(" ({} weights)", model::weights_in_words(plan.model.spec));
  if (plan.model.spec.cache_type != CacheType::kModel)
    report.dtype += fmt::format(" ({} KV)", to_string(plan.model.spec.cache_type));
  report.world_size = member.bootstrap().size();
  report.threads = plan.threads;
  report.shape = command.shape;
  report.prefill_chunk = plan.model.shard.chunk;
  report.max_seq_len = plan.model.shard.capacity;
  LOCKSTEP_TRY(const TokenFlops flops, flops_of_token(plan.model.spec, command.shape));
  report.flops_per_token = flops.prefill;
  report.decode_flops_per_token = flops.decode;
  report.kv = command.kv == KvMemory::kFresh ? "fresh" : "kept";
  report.one_clock = device::on_one_host(plan.places);
  return report;
}

}  // namespace

Result<void> run_bench_rank(const BenchCommand& command, group::Member& member, ProcessSession& session) {
  member.phases().enter("plan");
  const Result<Setting> prepared = prepare(command);
  LOCKSTEP_TRY_VOID(member.all_succeeded(prepared.has_value() ? Result<void>(ok()) : prepared.error()));
  const Setting& setting = prepared.value();
  LOCKSTEP_TRY(const model::Plan plan, agree_on_plan(command, member, setting));
  LOCKSTEP_TRY(BenchReport report, report_of(command, member, plan));
  member.phases().enter("connect");
  LOCKSTEP_TRY(const group::ChosenCommunicator chosen,
               group::make_communicator(member, setting.options.communicator, plan.places));
  log_plan(member, plan, chosen);
  LOCKSTEP_TRY(const size_t room, room_for_collectives(command, member, plan));
  trace::CollectiveLog collectives(room);
  const auto communicator = timed(member, chosen, collectives);
  report.communicator = communicator == nullptr ? "none" : communicator->name();
  for (const transport::Choice& choice : chosen.choices) {
    report.collectives.push_back({choice.bytes, choice.microseconds * 1e-6});
  }
  LOCKSTEP_TRY(const model::LoadedModel loaded,
               model::load(member, plan, setting.options, *setting.driver, communicator.get()));

  member.phases().enter("probe");
  LOCKSTEP_TRY(LimitsProbe probe, LimitsProbe::create(member, plan, command.probe_bytes, *loaded.backend));
  LOCKSTEP_TRY_VOID(probe.take());
  report.flops_precision = probe.precision();
  report.probes_devices = probe.is_of_devices();
  Repeater repeater(command, member, plan, session, *loaded.shard, collectives, probe);
  LOCKSTEP_TRY(const std::unique_ptr<FastModel> fast, load_fast(command, member, setting, plan, communicator.get()));
  std::optional<Repeater> fast_repeater;
  if (fast) fast_repeater.emplace(command, member, fast->plan, session, *fast->loaded.shard, collectives, probe);
  member.phases().enter("session");
  LOCKSTEP_TRY_VOID(repeater.open());
  member.phases().close();
  report.startup = startup_of(member.phases());
  const process::CoreWatch core_watch;
  LOCKSTEP_TRY_VOID(run_all(command, member, repeater, fast_repeater ? &*fast_repeater : nullptr, probe, report));

  member.phases().enter("report");
  report.dropped_collectives = repeater.dropped();
  LOCKSTEP_TRY(report.memory, observe::gather_memory(member, loaded));
  LOCKSTEP_TRY(report.cores, observe::gather_cores(member, core_watch));
  LOCKSTEP_TRY(const DecodeBytes bytes,
               group_decode_bytes(member.bootstrap(), loaded.shard->graphs().decode.back(), command.shape));
  report.bytes_per_token = bytes_per_token(bytes, command.shape);
  report.graphs = graph_uses(*loaded.shard, loaded.graphs->compiled(), command.shape);
  const bool is_first = member.leads();
  if (is_first) {
    LOCKSTEP_TRY(report.predicted, prediction_of(plan, report));
  }
  // Large files take time: the other ranks wait here, under the user's deadline.
  return member.all_succeeded(is_first ? write_report(command, member, report, repeater) : ok());
}

}  // namespace lockstep::launcher
