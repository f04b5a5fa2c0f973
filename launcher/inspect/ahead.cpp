#include "launcher/inspect/ahead.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "launcher/neuron/instances.h"
#include "launcher/ranks/serving_spec.h"
#include "shards/group_graphs.h"

namespace lockstep::launcher {
namespace {

Result<shards::ShardOptions> sizes_of(const CompileCommand& command, const checkpoint::ModelSpec& spec) {
  const int64_t capacity = command.model.max_seq_len.value_or(default_capacity(spec));
  if (const int64_t most = longest_sequence(spec).value_or(capacity); capacity > most) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[launcher] --max-seq-len: found {}, expected 1 to {} (max_position_embeddings of the "
                             "model); lower it",
                             capacity, most)};
  }
  LOCKSTEP_TRY(shards::ShardOptions sizes,
               shard_options(command.model, spec, command.model.batch_size.value_or(1), capacity));
  sizes.drafts = command.drafts;
  if (command.logits) sizes.logits = families::StepShape::Logits::kOutput;
  return sizes;
}

/// How large a file is; 0 when it is not there.
Bytes size_of_file(const std::filesystem::path& path) {
  std::error_code failed;
  const uintmax_t size = std::filesystem::file_size(path, failed);
  return Bytes(failed ? 0 : static_cast<int64_t>(size));
}

CompiledStep compile_step(const neuron::Compiler& compiler, const neuron::LoweredStep& step,
                          device::ArtifactCache& cache) {
  const SteadyClock clock;
  const TimePoint begin = clock.now();
  CompiledStep compiled{.name = step.module.name,
                        .key = compiler.key(step),
                        .module = Bytes(static_cast<int64_t>(neuron::module_bytes(step).size())),
                        .artifact = Error{ErrorKind::kCancelled, "[launcher] compilation was interrupted"}};
  const process::ChildStop* stop = compiler.options().stop;
  if (stop == nullptr || !stop->is_raised()) compiled.artifact = compiler.compile(step, cache);
  if (compiled.artifact.has_value()) compiled.size = size_of_file(compiled.artifact.value().path);
  compiled.seconds = to_seconds(clock.now() - begin);
  return compiled;
}

}  // namespace

Result<CompilePlan> plan_compilation(const CompileCommand& command) {
  const std::filesystem::path config = command.config.empty() ? command.model.model / "config.json" : command.config;
  LOCKSTEP_TRY(const checkpoint::ModelSpec spec, serving_spec(command.model, config));
  LOCKSTEP_TRY(const shards::ShardOptions sizes, sizes_of(command, spec));
  LOCKSTEP_TRY(const DividedModel divided,
               divide_model(command.model, spec, command.model.tp.value_or(1), sizes.slots));
  LOCKSTEP_TRY(const auto graphs, graphs_of_group(spec, divided.partition, sizes));
  CompilePlan plan;
  if (!divided.warning.empty()) plan.warnings.push_back(divided.warning);
  const neuron::Target target = neuron::target_from_name(command.neuron.target).value();
  const std::string why_not = why_not_degree(family_of(target), divided.partition.ranks());
  if (!why_not.empty()) {
    plan.warnings.push_back(fmt::format("--tp: {}; compiling all the same, a run needs --no-strict", why_not));
  }
  for (const std::vector<graph::Graph>& ranks : graphs) {
    LOCKSTEP_TRY(plan.steps.emplace_back(), neuron::lower(ranks));
  }
  return plan;
}

std::string_view CompiledStep::status() const {
  if (!artifact.has_value()) return "failed";
  return artifact.value().was_made ? "compiled" : "cached";
}

std::vector<CompiledStep> compile_steps(const neuron::Compiler& compiler, const std::vector<neuron::LoweredStep>& steps,
                                        device::ArtifactCache& cache, int jobs, const StepDone& done) {
  std::vector<std::optional<CompiledStep>> compiled(steps.size());
  std::atomic<size_t> next = 0;
  std::mutex telling;
  const auto work = [&] {
    for (size_t i = next++; i < steps.size(); i = next++) {
      compiled[i] = compile_step(compiler, steps[i], cache);
      const std::lock_guard lock(telling);
      done(*compiled[i]);
    }
  };
  {
    std::vector<std::jthread> others;
    const size_t threads = std::min(static_cast<size_t>(jobs), steps.size());
    for (size_t i = 1; i < threads; ++i) others.emplace_back(work);
    work();
  }
  std::vector<CompiledStep> all;
  for (std::optional<CompiledStep>& step : compiled) all.push_back(std::move(*step));
  return all;
}

}  // namespace lockstep::launcher
