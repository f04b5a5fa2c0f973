#include "runtime/backends/cuda/placement.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::cuda {

Result<device::DevicePlan> place_on_gpus(std::span<const device::RankPlace> places, std::span<const int> gpus,
                                         bool shares) {
  device::DevicePlan plan;
  for (size_t rank = 0; rank < places.size(); ++rank) {
    const device::RankPlace& place = places[rank];
    const int count = gpus[rank];
    const bool is_known = count > 0;
    if (is_known && place.local_size > count && !shares) {
      return Error{ErrorKind::kInvalidArgument,
                   fmt::format("[runtime/backends/cuda] cannot place ranks on host {}: found {} ranks and {} visible "
                               "GPUs, expected a GPU for each rank; start fewer ranks there, or add --share-devices",
                               place.host, place.local_size, count)};
    }
    plan.ordinals.push_back(is_known ? place.local_rank % count : place.local_rank);
    plan.devices.push_back(fmt::format("cuda:{}", plan.ordinals.back()));
    if (is_known && place.local_rank == 0 && place.local_size > count) {
      plan.warnings.push_back(fmt::format("{} ranks of host {} share {} GPUs: right, but slower than one rank for each",
                                          place.local_size, place.host, count));
    }
  }
  return plan;
}

int ranks_of_device(std::span<const device::RankPlace> places, const device::DevicePlan& plan, int rank) {
  const auto own = static_cast<size_t>(rank);
  int count = 0;
  for (size_t other = 0; other < places.size(); ++other) {
    count += places[other].node == places[own].node && plan.ordinals[other] == plan.ordinals[own] ? 1 : 0;
  }
  return count;
}

}  // namespace lockstep::cuda
