#include "engine/group/binding.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::group {
namespace {

using Cores = std::vector<int>;

bool share_cores(const std::vector<int>& a, const std::vector<int>& b) {
  return std::ranges::any_of(a, [&](int core) { return std::ranges::find(b, core) != b.end(); });
}

/// The cores of `place` that are in `near`, or none where that excludes no core of the host.
Cores wanted_cores(const device::RankPlace& place, const Cores& near) {
  const std::set<int> wanted(near.begin(), near.end());
  if (static_cast<int>(wanted.size()) >= place.host_cores) return {};
  Cores cores;
  std::ranges::copy_if(place.cores, std::back_inserter(cores), [&](int core) { return wanted.contains(core); });
  return cores;
}

/// Divides what ranks want, by rank: each core goes to one of the ranks that want it, scarce ones first to ranks that
/// have the fewest so far.
std::vector<Cores> divide(const std::vector<Cores>& wanted) {
  std::map<int, std::vector<size_t>> users;  // by core
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    for (const int core : wanted[rank]) users[core].push_back(rank);
  }
  std::map<std::pair<size_t, std::vector<size_t>>, Cores> pools;  // cores that the same ranks want; fewest ranks first
  for (const Cores& cores : wanted) {
    for (const int core : cores) {
      const auto found = users.find(core);
      if (found == users.end()) continue;
      pools[{found->second.size(), found->second}].push_back(core);
      users.erase(found);
    }
  }
  std::vector<Cores> shares(wanted.size());
  for (const auto& [key, cores] : pools) {
    std::vector<size_t> ranks = key.second;
    std::ranges::stable_sort(ranks, std::greater(), [&](size_t rank) { return shares[rank].size(); });
    for (size_t i = 0; i < ranks.size(); ++i) {
      const auto at = [&, &cores = cores](size_t part) {
        return cores.begin() + static_cast<std::ptrdiff_t>(part * cores.size() / ranks.size());
      };
      shares[ranks[i]].insert(shares[ranks[i]].end(), at(i), at(i + 1));
    }
  }
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    if (shares[rank].empty()) shares[rank] = wanted[rank];  // fewer cores than ranks
  }
  return shares;
}

/// Leaves `place` the cores that are in `kept`.
void narrow(device::RankPlace& place, const Cores& kept) {
  Cores cores, threads;
  for (size_t i = 0; i < place.cores.size(); ++i) {
    if (std::ranges::find(kept, place.cores[i]) == kept.end()) continue;
    cores.push_back(place.cores[i]);
    threads.push_back(device::thread_of_core(place, i));
  }
  place.cores = std::move(cores);
  place.hardware_threads = std::move(threads);
}

std::string unbound_flag(transport::Launcher launcher, const Cores& near) {
  switch (launcher) {
    case transport::Launcher::kOpenMpi: return "mpirun --bind-to none";
    case transport::Launcher::kPmi: return "mpirun.mpich -bind-to none";
    case transport::Launcher::kSlurm: return "srun --cpu-bind=none";
    default: return fmt::format("let it run on those (taskset -c {})", core_list(near));
  }
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
    std::vector<int> chosen;
    for (size_t i = first; i < first + threads; ++i) chosen.push_back(device::thread_of_core(own.place, i));
    return chosen;
  };
  if (are_own && (threads == cores.size() || (is_restricted && threads < cores.size()))) return from(0);
  if (are_common && together == cores.size()) return from(before);
  return {};
}

Placement near_devices(Placement placement, std::span<const std::vector<int>> near) {
  std::map<int, std::vector<size_t>> hosts;  // their ranks
  for (size_t rank = 0; rank < placement.ranks.size(); ++rank) {
    hosts[placement.ranks[rank].place.node].push_back(rank);
  }
  for (const auto& [node, ranks] : hosts) {
    std::vector<Cores> wanted;
    for (const size_t rank : ranks) wanted.push_back(wanted_cores(placement.ranks[rank].place, near[rank]));
    const std::vector<Cores> shares = divide(wanted);
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (!shares[i].empty()) narrow(placement.ranks[ranks[i]].place, shares[i]);
    }
  }
  return placement;
}

std::vector<Finding> judge_devices(const Placement& placement, std::span<const std::vector<int>> near) {
  for (size_t rank = 0; rank < placement.ranks.size(); ++rank) {
    const PlacedRank& own = placement.ranks[rank];
    if (near[rank].empty() || own.place.cores.empty() || share_cores(own.place.cores, near[rank])) continue;
    return {{fmt::format("rank {} on {} may run only on cores {}, far from its device {} (near cores {})", rank,
                         own.place.host, core_list(own.place.cores), own.device, core_list(near[rank])),
             unbound_flag(placement.launcher, near[rank])}};
  }
  return {};
}

BoundThread::BoundThread(std::span<const int> hardware_threads) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int thread : hardware_threads) {
    if (thread < CPU_SETSIZE) CPU_SET(static_cast<size_t>(thread), &set);
  }
  if (CPU_COUNT(&set) == 0 || sched_getaffinity(0, sizeof before_, &before_) != 0) return;
  is_bound_ = sched_setaffinity(0, sizeof set, &set) == 0;
}

BoundThread::~BoundThread() {
  if (is_bound_) sched_setaffinity(0, sizeof before_, &before_);
}

}  // namespace lockstep::group
