#include "launcher/ranks/devices.h"

#include <fmt/ranges.h>

#include <charconv>
#include <map>
#include <utility>

#include "runtime/core/check.h"
#include "transport/waiting.h"

namespace lockstep::launcher {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    parts.push_back(trimmed(text.substr(0, comma)));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

std::optional<int> number(std::string_view text) {
  int value = -1;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::vector<std::string> all_of(int installed) {
  std::vector<std::string> names;
  for (int i = 0; i < installed; ++i) names.push_back(fmt::format("{}", i));
  return names;
}

}  // namespace

std::vector<std::string> visible_cuda_devices(const std::optional<std::string>& value, int installed) {
  if (!value) return all_of(installed);
  std::vector<std::string> names;
  for (const std::string_view entry : split(*value)) {
    const bool is_uuid = entry.starts_with("GPU-") || entry.starts_with("MIG-");
    const std::optional<int> index = number(entry);
    if (!is_uuid && (!index || *index >= installed)) break;
    names.emplace_back(entry);
  }
  return names;
}

int device_ordinal(int local_rank, int visible) {
  LOCKSTEP_CHECK(visible >= 1 && local_rank >= 0, visible, local_rank);
  return local_rank % visible;  // of one device: 0
}

Result<std::vector<int>> bind_devices(std::span<const transport::RankPlace> places,
                                      std::span<const RankDevices> devices, DeviceSharing sharing,
                                      std::string_view variable) {
  LOCKSTEP_CHECK(places.size() == devices.size(), places.size(), devices.size());
  std::vector<int> ordinals;
  std::map<std::pair<int, std::string>, std::vector<int>> ranks_of_device;  // by host and identity
  for (size_t rank = 0; rank < places.size(); ++rank) {
    const std::vector<std::string>& visible = devices[rank].identities;
    if (visible.empty()) {
      return Error{ErrorKind::kFailedPrecondition,
                   fmt::format("[launcher] rank {} on {} sees no device: found none, expected one at least; ask the "
                               "launcher for one (srun --gpus-per-task=1), or look at {}",
                               rank, places[rank].host, variable),
                   static_cast<int>(rank)};
    }
    ordinals.push_back(device_ordinal(places[rank].local_rank, static_cast<int>(visible.size())));
    const std::string& identity = visible[static_cast<size_t>(ordinals.back())];
    ranks_of_device[{places[rank].node, identity}].push_back(static_cast<int>(rank));
  }
  for (const auto& [device, ranks] : ranks_of_device) {
    if (ranks.size() < 2 || sharing == DeviceSharing::kAllow) continue;
    const transport::RankPlace& place = places[static_cast<size_t>(ranks.front())];
    return Error{ErrorKind::kFailedPrecondition,
                 fmt::format("[launcher] {} on {} would share device {}: found {} for {}, expected one each; start "
                             "fewer ranks there, show each its own in {}, or allow it with --share-devices",
                             transport::rank_list(ranks), place.host, device.second,
                             devices[static_cast<size_t>(ranks.front())].identities.size() == 1 ? "one device visible"
                                                                                                : "too few devices",
                             fmt::format("{} ranks", place.local_size), variable),
                 ranks[1]};
  }
  return ordinals;
}

}  // namespace lockstep::launcher
