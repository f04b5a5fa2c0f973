#include "runtime/device/rank_place.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace lockstep::device {

const std::string& machine_of(const RankPlace& place) { return place.machine.empty() ? place.host : place.machine; }

int thread_of_core(const RankPlace& place, size_t index) {
  return place.hardware_threads.empty() ? place.cores.at(index) : place.hardware_threads.at(index);
}

bool on_one_host(std::span<const RankPlace> places) {
  return std::ranges::all_of(places, [&](const RankPlace& place) { return place.node == places.front().node; });
}

std::string rank_list(std::span<const int> ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

}  // namespace lockstep::device
