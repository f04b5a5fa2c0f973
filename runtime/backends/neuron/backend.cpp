#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "runtime/backends/neuron/compiler/compiler.h"
#include "runtime/backends/neuron/executable.h"
#include "runtime/backends/neuron/group_compile.h"
#include "runtime/backends/neuron/neuron.h"
#include "runtime/backends/neuron/store.h"
#include "runtime/core/digest.h"

namespace lockstep::neuron {
namespace {

/// The states that tokens are appended to.
std::set<std::string> cache_names(const graph::Graph& graph) {
  std::set<std::string> names;
  for (const graph::Node& node : graph.nodes) {
    if (node.op == graph::Op::kKvAppend) names.insert(graph.value(node.operands[1]).name);
  }
  return names;
}

Result<std::vector<std::byte>> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<std::byte> bytes(file ? static_cast<size_t>(file.tellg()) : 0);
  if (file.seekg(0)) file.read(reinterpret_cast<char*>(bytes.data()), std::ssize(bytes));
  if (file && !bytes.empty()) return bytes;
  return Error{ErrorKind::kUnavailable,
               fmt::format("[runtime/backends/neuron] cannot read {}: found no readable file, expected a NEFF; see "
                           "whether something removes files of the compile cache",
                           path.string())};
}

/// The key fields that all ranks must share before they load. Without the compiler, its version is unknown.
std::string hash_of(const device::ArtifactKey& key) {
  Sha256 hash;
  for (const auto& [name, value] : key.fields) {
    if (name != "compiler") hash.add(name + " " + value + "\n");
  }
  return hash.hex();
}

Result<void> check_group(const graph::Graph& graph, const device::Communicator* group) {
  const int ranks = group == nullptr ? 1 : group->size(), rank = group == nullptr ? 0 : group->rank();
  if (graph.ranks == ranks && graph.rank == rank) return ok();
  return Error{
      ErrorKind::kInvalidArgument,
      fmt::format("[runtime/backends/neuron] cannot compile {}: found a communicator of rank {} of {}, expected "
                  "rank {} of {}",
                  graph.name, rank, ranks, graph.rank, graph.ranks)};
}

class Backend final : public device::Backend {
 public:
  Backend(const Options& options, Compiler compiler, std::unique_ptr<nrt::Runtime> runtime,
          device::ArtifactCache& cache, std::unique_ptr<device::ArtifactCache> own_cache)
      : options_(options),
        compiler_(std::move(compiler)),
        runtime_(std::move(runtime)),
        own_cache_(std::move(own_cache)),
        cache_(cache) {}

  std::string_view name() const override { return "neuron"; }
  device::Capabilities capabilities() const override { return neuron::capabilities(); }

  Result<std::unique_ptr<device::Store>> make_store(std::span<const device::StepGraph> steps) override {
    LOCKSTEP_TRY(std::unique_ptr<Store> store, Store::make(*runtime_, steps));
    return store;
  }

  Result<std::unique_ptr<device::Executable>> compile(const device::StepGraph& step, device::Store& store,
                                                      const device::CompileOptions& options) override {
    auto* own = dynamic_cast<Store*>(&store);
    LOCKSTEP_CHECK(own != nullptr);  // a store of another backend
    LOCKSTEP_TRY_VOID(check_group(step.own, options.communicator));
    LOCKSTEP_TRY(LoweredStep lowered, own->take_lowered(step));
    LOCKSTEP_TRY(nrt::Model model, load(step.own, lowered, options.communicator));
    const StepOptions waits{.deadline = options_.step_deadline, .abort = options_.abort};
    LOCKSTEP_TRY(std::unique_ptr<Executable> executable,
                 Executable::make(step.own, std::move(lowered.signature), std::move(model), *own, waits));
    own->add_workspace(Bytes(executable->workspace_bytes()));
    return std::unique_ptr<device::Executable>(std::move(executable));
  }

 private:
  /// Agrees on the module, compiles it and loads it on the core, in this order on every rank.
  Result<nrt::Model> load(const graph::Graph& graph, const LoweredStep& lowered, device::Communicator* group) {
    const std::string hash = hash_of(compiler_.key(lowered));
    LOCKSTEP_TRY_VOID(agree_on_module(group, graph.name, hash));
    LOCKSTEP_TRY(const device::Artifact artifact,
                 get_together(group, graph.name, [&] { return compiler_.compile(lowered, cache_); }));
    LOCKSTEP_TRY(const std::vector<std::byte> neff, read_file(artifact.path));
    return nrt::Model::load(*runtime_, graph.name, neff, {graph.rank, graph.ranks}, options_.load_deadline);
  }

  const Options options_;
  const Compiler compiler_;
  std::unique_ptr<nrt::Runtime> runtime_;
  std::unique_ptr<device::ArtifactCache> own_cache_;  // null: owned elsewhere
  device::ArtifactCache& cache_;
};

/// Starts over `cache`; the backend takes ownership through `own_cache`.
Result<std::unique_ptr<device::Backend>> start(const Options& options, device::ArtifactCache& cache,
                                               std::unique_ptr<device::ArtifactCache> own_cache) {
  LOCKSTEP_TRY_VOID(options.validate());
  LOCKSTEP_TRY(Compiler compiler, Compiler::open(options.compiler));
  nrt::Runtime::Options runtime{.library = options.runtime, .start_deadline = options.load_deadline};
  runtime.watch.abort = options.abort;
  runtime.watch.on_stuck = options.on_stuck;
  LOCKSTEP_TRY(auto started, nrt::Runtime::start(std::move(runtime)));
  if (options.log != nullptr) {
    options.log->info("Neuron runtime {} of {}", started->library().version(), started->library().path().string());
  }
  return std::unique_ptr<device::Backend>(
      std::make_unique<Backend>(options, std::move(compiler), std::move(started), cache, std::move(own_cache)));
}

}  // namespace

Result<void> Options::validate() const {
  LOCKSTEP_TRY_VOID(compiler.validate());
  if (load_deadline > Duration::zero() && step_deadline > Duration::zero()) return ok();
  return Error{
      ErrorKind::kInvalidArgument,
      fmt::format("[runtime/backends/neuron] cannot wait for loads and steps: found deadlines of {} s and {} s, "
                  "expected more than 0",
                  to_seconds(load_deadline), to_seconds(step_deadline))};
}

device::Capabilities capabilities() {
  return {.dtypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16},
          .rows_of_one_slot = true,
          .bounded_attention = false,  // a module reads all rows of its bucket; use --buckets
          .invariant_sums = false,     // the device's order of sums is unknown
          .coded_weights = device::CodedWeights::kInt8,
          .whole_group = true};
}

Result<std::unique_ptr<device::Backend>> make_backend(const Options& options, device::ArtifactCache& cache) {
  return start(options, cache, nullptr);
}

Result<std::unique_ptr<device::Backend>> make_backend(const Options& options,
                                                      std::unique_ptr<device::ArtifactCache> cache) {
  device::ArtifactCache& lent = *cache;
  return start(options, lent, std::move(cache));
}

std::string to_string(const MemoryEstimate& estimate) {
  return fmt::format("{} of weights, {} of states, {} of inputs and outputs", lockstep::to_string(estimate.weights),
                     lockstep::to_string(estimate.states()), lockstep::to_string(estimate.exchanged));
}

Result<MemoryEstimate> estimate_memory(std::span<const device::StepGraph> steps) {
  MemoryEstimate estimate;
  std::set<std::string> counted;  // weights and states are shared by all steps
  for (const device::StepGraph& step : steps) {
    LOCKSTEP_TRY(const LoweredStep lowered, lower(group_of(step)));
    const std::set<std::string> caches = cache_names(step.own);
    for (const Parameter& parameter : lowered.signature.parameters) {
      const Bytes bytes(parameter.type.bytes());
      const bool is_shared = parameter.role == Role::kWeight || parameter.role == Role::kState;
      if (is_shared && !counted.insert(parameter.name).second) continue;
      Bytes& state = caches.contains(parameter.name) ? estimate.caches : estimate.slots;
      Bytes& part = parameter.role == Role::kWeight  ? estimate.weights
                    : parameter.role == Role::kState ? state
                                                     : estimate.exchanged;
      part += bytes;
    }
    for (const ModuleOutput& output : lowered.signature.outputs) {
      if (!output.parameter) estimate.exchanged += Bytes(output.type.bytes());
    }
  }
  return estimate;
}

}  // namespace lockstep::neuron
