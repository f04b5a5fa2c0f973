#include "runtime/backends/neuron/launch/cores.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>
#include <utility>

namespace lockstep::neuron {
namespace {

constexpr int kMostCores = 4096;
constexpr const char* kVariable = "NEURON_RT_VISIBLE_CORES";

std::optional<int> number(std::string_view text) {
  int value = -1;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < 0 || value >= kMostCores)
    return std::nullopt;
  return value;
}

Error no_cores(const std::string& text, const std::string& source) {
  return {ErrorKind::kInvalidArgument, fmt::format("[runtime/backends/neuron] {}: found '{}', expected a count such as "
                                                   "4, or different cores such as 8-15 or 0,2; a "
                                                   "single core is written 3-3",
                                                   source, text)};
}

/// Parses "0-3,6"; a single number is a core.
Result<std::vector<int>> parse_list(const std::string& text, const std::string& source) {
  std::vector<int> cores;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t dash = part.find('-');
    const std::optional<int> first = number(part.substr(0, dash));
    const std::optional<int> last = dash == std::string::npos ? first : number(part.substr(dash + 1));
    if (!first || !last || *first > *last) return no_cores(text, source);
    for (int core = *first; core <= *last; ++core) {
      if (std::ranges::find(cores, core) != cores.end()) return no_cores(text, source);
      cores.push_back(core);
    }
  }
  if (cores.empty()) return no_cores(text, source);
  return cores;
}

std::vector<int> first_cores(int count) {
  std::vector<int> cores;
  for (int core = 0; core < count; ++core) cores.push_back(core);
  return cores;
}

/// The available cores for the ranks of `place`'s host.
Result<std::vector<int>> cores_of_host(const device::RankPlace& place, const WantedCores& wanted) {
  if (!wanted.option.empty()) return parse_cores(wanted.option, "--neuron-cores");
  if (wanted.variable) return parse_list(*wanted.variable, kVariable);
  return first_cores(place.local_size);
}

}  // namespace

Result<std::vector<int>> parse_cores(const std::string& text, const std::string& source) {
  if (text.empty()) return std::vector<int>();
  const std::optional<int> count = number(text);
  if (count == 0) return no_cores(text, source);
  if (count) return first_cores(*count);
  return parse_list(text, source);
}

Result<std::vector<int>> assign_cores(std::span<const device::RankPlace> places, std::span<const WantedCores> wanted) {
  std::vector<int> chosen;
  std::map<std::pair<int, int>, std::vector<int>> ranks_of_core;  // by host and core
  for (size_t rank = 0; rank < places.size(); ++rank) {
    const device::RankPlace& place = places[rank];
    LOCKSTEP_TRY(const std::vector<int> cores, cores_of_host(place, wanted[rank]));
    // A wrapper may set a different variable for each rank.
    const bool shows_one = wanted[rank].option.empty() && wanted[rank].variable && cores.size() == 1;
    if (!shows_one && std::ssize(cores) < place.local_size) {
      return Error{
          ErrorKind::kFailedPrecondition,
          fmt::format(
              "[runtime/backends/neuron] --neuron-cores: found {} core{} ({}) for the {} ranks on {}, expected one for "
              "each; name more, or start fewer ranks there",
              cores.size(), cores.size() == 1 ? "" : "s", fmt::join(cores, ","), place.local_size, place.host),
          static_cast<int>(rank)};
    }
    chosen.push_back(shows_one ? cores.front() : cores[static_cast<size_t>(place.local_rank)]);
    ranks_of_core[{place.node, chosen.back()}].push_back(static_cast<int>(rank));
  }
  for (const auto& [core, ranks] : ranks_of_core) {
    if (ranks.size() < 2) continue;
    return Error{
        ErrorKind::kFailedPrecondition,
        fmt::format("[runtime/backends/neuron] --neuron-cores: found {} on core {} of {}, expected one rank a core; "
                    "name a core "
                    "for each rank there, or show each rank its own in {}",
                    device::rank_list(ranks), core.second, places[static_cast<size_t>(ranks.front())].host, kVariable),
        ranks[1]};
  }
  return chosen;
}

}  // namespace lockstep::neuron
