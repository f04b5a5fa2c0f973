#include "runtime/backends/cuda/placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>

namespace lockstep::cuda {
namespace {

using Gpus = std::vector<GpuSite>;

Error too_few_gpus(const device::RankPlace& place, size_t count) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[runtime/backends/cuda] cannot place ranks on host {}: found {} ranks and {} visible GPU{}, "
                      "expected a GPU for each rank; start fewer ranks there, or add --share-devices",
                      place.host, place.local_size, count, count == 1 ? "" : "s")};
}

bool is_near(const device::RankPlace& place, const GpuSite& gpu) {
  if (gpu.near_cores.empty()) return true;
  return std::ranges::any_of(place.cores, [&](int core) { return std::ranges::count(gpu.near_cores, core) > 0; });
}

/// The GPUs of one host, and how many ranks have taken each.
class Host {
 public:
  Host(int ranks, size_t gpus) : taken_(gpus), most_((static_cast<size_t>(ranks) + gpus - 1) / gpus) {}

  /// Whether the cores of `place` prefer some of its GPUs to others.
  static bool is_choosy(const device::RankPlace& place, const Gpus& gpus) {
    const auto near = std::ranges::count_if(gpus, [&](const GpuSite& gpu) { return is_near(place, gpu); });
    return near > 0 && near < std::ssize(gpus);
  }

  /// Takes a GPU that is not full: a near one, then the one with the fewest ranks, then the first.
  int take(const device::RankPlace& place, const Gpus& gpus) {
    const auto worth = [&](size_t gpu) { return std::pair(!is_near(place, gpus[gpu]), taken_[gpu]); };
    const size_t visible = std::min(gpus.size(), taken_.size());
    size_t best = visible;
    for (size_t gpu = 0; gpu < visible; ++gpu) {
      if (taken_[gpu] < most_ && (best == visible || worth(gpu) < worth(best))) best = gpu;
    }
    if (best == visible) best = static_cast<size_t>(place.local_rank) % visible;  // the ranks see different GPUs
    ++taken_[best];
    return static_cast<int>(best);
  }

 private:
  std::vector<size_t> taken_;
  size_t most_;  // ranks of one GPU
};

}  // namespace

std::string to_text(std::span<const GpuSite> gpus) {
  std::string text;
  for (const GpuSite& gpu : gpus) text += fmt::format("{}\n", fmt::join(gpu.near_cores, ","));
  return text;
}

Result<std::vector<GpuSite>> parse_gpus(std::string_view text) {
  Gpus gpus;
  for (std::string_view left = text; !left.empty();) {
    std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(line.size() + 1, left.size()));
    GpuSite& gpu = gpus.emplace_back();
    while (!line.empty()) {
      const std::string_view number = line.substr(0, line.find(','));
      line.remove_prefix(std::min(number.size() + 1, line.size()));
      const auto end = number.data() + number.size();
      if (std::from_chars(number.data(), end, gpu.near_cores.emplace_back()).ptr == end && !number.empty()) continue;
      return Error{ErrorKind::kFailedPrecondition,
                   fmt::format("[runtime/backends/cuda] cannot read a rank's GPUs: found '{}', expected core numbers; "
                               "start the same program on every rank",
                               text)};
    }
  }
  return gpus;
}

Result<device::DevicePlan> place_on_gpus(std::span<const device::RankPlace> places,
                                         std::span<const std::vector<GpuSite>> gpus, bool shares) {
  device::DevicePlan plan;
  std::map<int, Host> hosts;  // by node
  std::vector<size_t> order;  // ranks that prefer some GPUs choose first
  for (size_t rank = 0; rank < places.size(); ++rank) {
    const device::RankPlace& place = places[rank];
    const size_t count = gpus[rank].size();
    plan.ordinals.push_back(place.local_rank);
    if (count == 0) continue;
    const bool has_too_few = place.local_size > static_cast<int>(count);
    if (has_too_few && !shares) return too_few_gpus(place, count);
    if (has_too_few && place.local_rank == 0) {
      plan.warnings.push_back(
          fmt::format("{} ranks of host {} share {} GPU{}: right, but slower than one rank for each", place.local_size,
                      place.host, count, count == 1 ? "" : "s"));
    }
    hosts.try_emplace(place.node, place.local_size, count);
    order.push_back(rank);
  }
  std::ranges::stable_partition(order, [&](size_t rank) { return Host::is_choosy(places[rank], gpus[rank]); });
  for (const size_t rank : order) {
    plan.ordinals[rank] = hosts.at(places[rank].node).take(places[rank], gpus[rank]);
  }
  for (size_t rank = 0; rank < places.size(); ++rank) {
    const auto ordinal = static_cast<size_t>(plan.ordinals[rank]);
    plan.devices.push_back(fmt::format("cuda:{}", ordinal));
    plan.near_cores.push_back(gpus[rank].empty() ? std::vector<int>() : gpus[rank].at(ordinal).near_cores);
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
