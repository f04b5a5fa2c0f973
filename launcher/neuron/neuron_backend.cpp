#include "launcher/neuron/neuron_backend.h"

#include <fmt/format.h>

#include <cstdlib>

#include "launcher/inspect/compiler_options.h"
#include "launcher/neuron/cores.h"
#include "launcher/neuron/environment.h"
#include "launcher/neuron/instances.h"
#include "launcher/ranks/agreements.h"
#include "runtime/backends/neuron/neuron.h"

namespace lockstep::launcher {
namespace {

constexpr const char* kVisible = "NEURON_RT_VISIBLE_CORES";
constexpr const char* kRoot = "NEURON_RT_ROOT_COMM_ID";

/// The runtime ends a step that takes too long by itself, and knows why; the watch of the process comes after it.
constexpr auto kAfterTheRuntime = std::chrono::seconds(5);

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Result<neuron::Target> target_of(const RunOptions& run) {
  LOCKSTEP_TRY(const neuron::CompilerOptions compiler, compiler_options(run.neuron));
  return compiler.target;
}

/// What every rank's user said about cores, by rank. @collective @blocking
Result<std::vector<WantedCores>> wanted_cores(const RankContext& context) {
  const std::optional<std::string> variable = environment(kVisible);
  const std::string mine = context.run.neuron.cores + "\n" + (variable ? "=" + *variable : "");
  LOCKSTEP_TRY(const std::vector<std::string> told, context.bootstrap.exchange(mine));
  std::vector<WantedCores> wanted;
  for (const std::string& words : told) {
    const size_t end = words.find('\n');
    const std::string theirs = words.substr(end + 1);
    wanted.push_back({words.substr(0, end), theirs.empty() ? std::nullopt : std::optional(theirs.substr(1))});
  }
  return wanted;
}

/// Where the ranks' runtimes meet: rank 0's word. @collective @blocking
Result<std::string> meeting_place(const RankContext& context) {
  if (context.bootstrap.size() == 1) return std::string();
  std::string mine;
  const auto choose = [&]() -> Result<void> {
    if (context.bootstrap.rank() != 0) return ok();
    if (const auto theirs = environment(kRoot)) {
      mine = *theirs;
      return ok();
    }
    LOCKSTEP_TRY(const int port, free_port());
    mine = fmt::format("{}:{}", context.control_plane.address, port);
    return ok();
  };
  LOCKSTEP_TRY_VOID(all_succeeded(context.bootstrap, choose()));
  LOCKSTEP_TRY(const std::vector<std::string> told, context.bootstrap.exchange(mine));
  return told.front();
}

Result<void> set_environment(const RankContext& context, const RankEnvironment& rank) {
  LOCKSTEP_TRY(const std::vector<Variable> variables, variables_of(rank, environment));
  std::string line;
  for (const Variable& variable : variables) {
    if (!variable.note.empty()) context.log.info("{}", variable.note);
    if (!variable.is_users) ::setenv(variable.name.c_str(), variable.value.c_str(), /*overwrite=*/1);
    line += fmt::format("{}{}={}", line.empty() ? "" : " ", variable.name, variable.value);
  }
  context.log.info("environment of the Neuron runtime: {}", line);
  return ok();
}

}  // namespace

Result<void> plan_neuron(const RankContext& context, Plan& plan) {
  if (context.run.backend != "neuron") return ok();
  if (context.shared != nullptr && context.bootstrap.size() > 1) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[launcher] --backend neuron: found {} ranks as threads, expected a process for each: one "
                             "process uses one core; start them with mpirun -n {} lockstep …",
                             context.bootstrap.size(), context.bootstrap.size())};
  }
  LOCKSTEP_TRY(const neuron::Target target, target_of(context.run));
  LOCKSTEP_TRY(const std::vector<std::string> warnings,
               check_instances(family_of(target), plan.places, context.run.strictness));
  for (const std::string& warning : warnings) {
    if (context.bootstrap.rank() == 0) context.log.warning("warning: {}", warning);
  }
  LOCKSTEP_TRY(const std::vector<WantedCores> wanted, wanted_cores(context));
  LOCKSTEP_TRY(plan.neuron_cores, assign_cores(plan.places, wanted));  // the same facts on every rank
  for (size_t rank = 0; rank < plan.neuron_cores.size(); ++rank) {
    plan.placement.ranks.at(rank).device = fmt::format("neuron:{}", plan.neuron_cores[rank]);
  }
  return ok();
}

Result<void> check_neuron_memory(const RunOptions& run, const shards::ShardGraphs& graphs) {
  if (run.backend != "neuron") return ok();
  LOCKSTEP_TRY(const neuron::Target target, target_of(run));
  LOCKSTEP_TRY(const neuron::MemoryEstimate estimate, neuron::estimate_memory(graphs.steps()));
  return check_core_memory(family_of(target), estimate);
}

Result<std::unique_ptr<device::Backend>> make_neuron_backend(const RankContext& context, const Plan& plan,
                                                             device::ArtifactCache& cache) {
  const int rank = context.bootstrap.rank();
  const RunOptions& run = context.run;
  LOCKSTEP_TRY(const std::string root, meeting_place(context));
  std::unique_ptr<device::Backend> backend;
  const auto start = [&]() -> Result<void> {
    neuron::Options options;
    LOCKSTEP_TRY(options.compiler, compiler_options(run.neuron));
    const Duration step = duration_of(run.deadline_s);
    LOCKSTEP_TRY_VOID(set_environment(context, {.core = plan.neuron_cores.at(static_cast<size_t>(rank)),
                                                .root = root,
                                                .step_deadline = step,
                                                .logical_core = options.compiler.cores_per_logical_core()}));
    options.runtime = run.neuron.runtime;
    options.load_deadline = duration_of(run.neuron.load_deadline_s);
    options.step_deadline = step + kAfterTheRuntime;
    options.abort = &context.abort;
    options.on_stuck = context.on_stuck;
    options.log = &context.log;
    LOCKSTEP_TRY(backend, neuron::make_backend(options, cache));
    return ok();
  };
  LOCKSTEP_TRY_VOID(all_succeeded(context.bootstrap, start()));
  return backend;
}

}  // namespace lockstep::launcher
