#include <fmt/format.h>

#include <algorithm>

#include "runtime/backends/cpu/cpu.h"
#include "runtime/backends/cpu/executable.h"

namespace lockstep::cpu {
namespace {

class Backend final : public device::Backend {
 public:
  Backend(Isa isa, std::unique_ptr<ThreadTeam> team) : isa_(isa), kernels_(kernels_for(isa)), team_(std::move(team)) {}

  std::string_view name() const override { return "cpu"; }

  device::Capabilities capabilities() const override { return cpu::capabilities(isa_); }

  Result<std::unique_ptr<device::Store>> make_store(std::span<const device::StepGraph> steps) override {
    LOCKSTEP_TRY(std::unique_ptr<device::Store> store, Store::create(steps, kernels_, *team_));
    return store;
  }

  Result<std::unique_ptr<device::Executable>> compile(const device::StepGraph& step, device::Store& store,
                                                      const device::CompileOptions& options) override {
    auto* own = dynamic_cast<Store*>(&store);
    LOCKSTEP_CHECK(own != nullptr);
    LOCKSTEP_TRY(std::unique_ptr<device::Executable> executable,
                 Executable::compile(step.own, *own, kernels_, *team_, options.communicator));
    return executable;
  }

 private:
  const Isa isa_;
  const Kernels& kernels_;
  std::unique_ptr<ThreadTeam> team_;
};

}  // namespace

device::Capabilities capabilities(Isa isa) {
  return {.dtypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16},
          .rows_of_one_slot = false,
          .bounded_attention = true,
          .invariant_sums = true,
          .recurrences = true,
          .coded_weights = device::CodedWeights::kAll,
          .rounded_experts = true,
          .coded_caches = true,
          .latent_attention = true,
          .host_threads = true,
          .host_instructions = std::string(to_string(isa))};
}

Result<void> Options::validate() const {
  if (threads < 1) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[runtime/backends/cpu] found {} threads, expected at least 1", threads)};
  }
  if (!cores.empty() && cores.size() != static_cast<size_t>(threads)) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[runtime/backends/cpu] found {} cores for {} threads, expected one per thread or none",
                             cores.size(), threads)};
  }
  return ok();
}

Result<void> check_is_built(Isa isa) {
  const std::vector<Isa> built = built_isas();
  if (std::ranges::find(built, isa) != built.end()) return ok();
  std::vector<std::string_view> names;
  for (const Isa known : built) names.push_back(to_string(known));
  return Error{ErrorKind::kUnsupported,
               fmt::format("[runtime/backends/cpu] --instruction-set {}: this build lacks it: found {}; choose one of "
                           "them, or configure with -DLOCKSTEP_CPU_ISAS=all",
                           to_string(isa), fmt::join(names, ", "))};
}

Result<std::unique_ptr<device::Backend>> make_backend(const Options& options) {
  LOCKSTEP_TRY_VOID(options.validate());
  const Isa isa = options.isa.value_or(best_isa());
  LOCKSTEP_TRY_VOID(check_is_built(isa));
  if (isa > machine_isa()) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("[runtime/backends/cpu] this machine cannot run {}: found {} at best; choose that or a "
                             "lower one",
                             to_string(isa), to_string(best_isa()))};
  }
  LOCKSTEP_TRY(std::unique_ptr<ThreadTeam> team, ThreadTeam::start(options.threads, options.cores));
  std::unique_ptr<device::Backend> backend = std::make_unique<Backend>(isa, std::move(team));
  return backend;
}

}  // namespace lockstep::cpu
