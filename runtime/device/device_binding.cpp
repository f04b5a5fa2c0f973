#include "runtime/device/device_binding.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace lockstep::device {
namespace {

Error sees_none(const RankPlace& place, std::string_view variable) {
  return {ErrorKind::kFailedPrecondition,
          fmt::format("[runtime/device] rank {} on {} sees no device: found none, expected one at least; ask the "
                      "launcher for one (srun --gpus-per-task=1), or look at {}",
                      place.rank, place.host, variable),
          place.rank};
}

Error would_share(const std::vector<int>& ranks, const RankPlace& place, const std::string& device,
                  std::string_view variable) {
  return {
      ErrorKind::kFailedPrecondition,
      fmt::format("[runtime/device] {} on {} would share device {}: found fewer devices than ranks, expected one for "
                  "each of {}; start fewer ranks there, or show each its own in {}",
                  rank_list(ranks), place.host, device, place.local_size, variable),
      ranks[1]};
}

}  // namespace

Result<std::vector<int>> bind_devices(std::span<const RankPlace> places, std::span<const RankDevices> devices,
                                      DeviceSharing sharing, std::string_view variable) {
  LOCKSTEP_CHECK(places.size() == devices.size(), places.size(), devices.size());
  std::vector<int> ordinals;
  std::map<std::pair<int, std::string>, std::vector<int>> ranks_of_device;  // by host and identity
  for (size_t rank = 0; rank < places.size(); ++rank) {
    const std::vector<std::string>& visible = devices[rank].identities;
    if (visible.empty()) return sees_none(places[rank], variable);
    ordinals.push_back(places[rank].local_rank % static_cast<int>(visible.size()));
    const std::string& identity = visible[static_cast<size_t>(ordinals.back())];
    ranks_of_device[{places[rank].node, identity}].push_back(static_cast<int>(rank));
  }
  if (sharing == DeviceSharing::kAllow) return ordinals;
  for (const auto& [device, ranks] : ranks_of_device) {
    if (ranks.size() < 2) continue;
    return would_share(ranks, places[static_cast<size_t>(ranks.front())], device.second, variable);
  }
  return ordinals;
}

}  // namespace lockstep::device
