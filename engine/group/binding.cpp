#include "engine/group/binding.h"

#include <algorithm>

namespace lockstep::group {
namespace {

bool share_cores(const std::vector<int>& a, const std::vector<int>& b) {
  return std::ranges::any_of(a, [&](int core) { return std::ranges::find(b, core) != b.end(); });
}

}  // namespace

std::vector<int> cores_of_threads(const Placement& placement, int rank) {
  const PlacedRank& own = placement.ranks.at(static_cast<size_t>(rank));
  const std::vector<int>& cores = own.place.cores;
  bool are_own = true, are_common = true;
  size_t before = 0, together = 0;  // threads of the ranks before this one, and of all ranks of its host
  for (const PlacedRank& other : placement.ranks) {
    if (other.place.node != own.place.node) continue;
    together += static_cast<size_t>(other.threads);
    if (other.place.rank == rank) continue;
    if (other.place.rank < rank) before += static_cast<size_t>(other.threads);
    are_own = are_own && !share_cores(cores, other.place.cores);
    are_common = are_common && other.place.cores == cores;
  }
  const auto threads = static_cast<size_t>(own.threads);
  const bool is_restricted = static_cast<int>(cores.size()) < own.place.host_cores;
  const auto from = [&](size_t first) {
    const auto begin = cores.begin() + static_cast<std::ptrdiff_t>(first);
    return std::vector<int>(begin, begin + static_cast<std::ptrdiff_t>(threads));
  };
  if (are_own && (threads == cores.size() || (is_restricted && threads < cores.size()))) return from(0);
  if (are_common && together == cores.size()) return from(before);
  return {};
}

BoundThread::BoundThread(std::span<const int> cores) {
  if (cores.empty() || cores.front() >= CPU_SETSIZE) return;
  if (sched_getaffinity(0, sizeof before_, &before_) != 0) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cores.front(), &one);
  is_bound_ = sched_setaffinity(0, sizeof one, &one) == 0;
}

BoundThread::~BoundThread() {
  if (is_bound_) sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace lockstep::group
