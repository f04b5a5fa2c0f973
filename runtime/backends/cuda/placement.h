// Which GPU each rank takes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device/backend_driver.h"

namespace lockstep::cuda {

/// A visible GPU.
struct GpuSite {
  std::vector<int> near_cores;  // empty: unknown

  friend bool operator==(const GpuSite&, const GpuSite&) = default;
};

/// What a rank tells the others of its GPUs; none: it has no driver.
std::string to_text(std::span<const GpuSite> gpus);
/// Fails with `kFailedPrecondition` for any other text.
Result<std::vector<GpuSite>> parse_gpus(std::string_view text);

/// Ranks of a host take its GPUs in order, except that a rank whose cores are near some GPUs only takes one of those
/// first. `gpus` is what each rank sees; none: it has no driver, and says so when it starts. Fails with
/// `kInvalidArgument` where a host has more ranks than GPUs, unless they are to share. Pure.
Result<device::DevicePlan> place_on_gpus(std::span<const device::RankPlace> places,
                                         std::span<const std::vector<GpuSite>> gpus, bool shares);

/// The ranks of `rank`'s host that use the same GPU, with itself.
int ranks_of_device(std::span<const device::RankPlace> places, const device::DevicePlan& plan, int rank);

}  // namespace lockstep::cuda
