#include "runtime/backends/cuda/step_memory.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::cuda {
namespace {

constexpr int64_t kPage = int64_t{2} << 20;  // of keys and values

int64_t bytes_of(const StepPlan& plan, int ranks) {
  const int64_t seen_by_peers = ranks > 1 ? flag_bytes(ranks) + 2 * plan.half_bytes : 0;
  const bool uses_blas =
      std::ranges::any_of(plan.launches, [](const Launch& launch) { return launch.matmul.has_value(); });
  const int64_t of_blas = uses_blas ? cu::Matmul::kWorkspaceBytes : 0;
  return plan.workspace_bytes + std::ssize(plan.tables) + plan.head_bytes + seen_by_peers + of_blas;
}

}  // namespace

Result<device::DeviceMemory> memory_of_steps(std::span<const device::StepGraph> steps, const StepOptions& options,
                                             const device::Hosts& hosts) {
  LOCKSTEP_TRY(const StoreLayout layout, StoreLayout::of(steps, {.keeps_rows_of_products = options.uses_blas}));
  Bases bases;
  bases.hosts = hosts;
  device::DeviceMemory memory{.weights = Bytes(layout.weight_bytes),
                              .cache = Bytes((layout.cache_bytes + kPage - 1) / kPage * kPage),
                              .slots = Bytes(0),
                              .workspace = Bytes(0)};
  for (const device::StepGraph& step : steps) {
    LOCKSTEP_TRY(const StepPlan plan, plan_step(step.own, layout, bases, options));
    memory.workspace += Bytes(bytes_of(plan, step.own.ranks));
  }
  return memory;
}

Result<void> check_memory(const device::DeviceMemory& needed, Bytes available, std::string_view device, int rank) {
  if (needed.total() <= available) return ok();
  return Error{
      ErrorKind::kResourceExhausted,
      fmt::format(
          "[runtime/backends/cuda] rank {}: {} is too small: found {} for this rank, expected {} ({} of weights, "
          "{} of keys and values of all slots at full length, {} of workspace); lower --max-seq-len, "
          "--batch-size or --prefill-chunk, or use more ranks",
          rank, device, to_string(available), to_string(needed.total()), to_string(needed.weights),
          to_string(needed.cache), to_string(needed.workspace))};
}

}  // namespace lockstep::cuda
