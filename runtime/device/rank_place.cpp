#include "runtime/device/rank_place.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep::device {

const std::string& machine_of(const RankPlace& place) { return place.machine.empty() ? place.host : place.machine; }

std::string rank_list(std::span<const int> ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

}  // namespace lockstep::device
