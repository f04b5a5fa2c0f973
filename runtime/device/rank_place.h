// The place of a rank: its host and its cores.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace lockstep::device {

/// Where a rank runs. Ranks of one host share memory: a host is a machine, or one of several containers on it.
struct RankPlace {
  int rank = 0;  // of the world
  std::string host;
  int local_rank = 0;  // among the ranks of that host
  int local_size = 1;
  std::vector<int> cores;  // on which the process may run, in the machine's order; each by its lowest hardware thread
  int node = 0;            // number of the host, in the order of the hosts' first ranks, because names may repeat
  std::string machine;     // the running kernel: hosts on the same machine share cores; empty: as the host
  int host_cores = 0;      // cores that the process could get, whatever its current binding; 0: unknown
  std::vector<int> hardware_threads = {};  // by core, the one that the process may use; empty: numbered as the cores

  friend bool operator==(const RankPlace&, const RankPlace&) = default;
};

/// The hardware thread of the core at `index` of `place.cores`.
int thread_of_core(const RankPlace& place, size_t index);

/// The name under which cores are counted: the machine of a place, or its host if the machine is unknown.
const std::string& machine_of(const RankPlace& place);

bool on_one_host(std::span<const RankPlace> places);

/// "rank 3", "ranks 0, 3".
std::string rank_list(std::span<const int> ranks);

}  // namespace lockstep::device
