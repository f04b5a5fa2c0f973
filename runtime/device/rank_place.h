// Where a rank runs: its host, and the cores that it may use there.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace lockstep::device {

/// Where a rank runs. A host is what its ranks share memory in: a machine, or one container of several on it.
struct RankPlace {
  int rank = 0;  // of the world
  std::string host;
  int local_rank = 0;  // among the ranks of that host
  int local_size = 1;
  std::vector<int> cores;  // that the process may run on
  int node = 0;            // number of the host, in the order of their first ranks: names may repeat
  std::string machine;     // the running kernel: hosts that share it share cores; empty: as the host
  int host_cores = 0;      // that the process could be given there, whatever it is bound to; 0: not known

  friend bool operator==(const RankPlace&, const RankPlace&) = default;
};

/// What tells apart where cores are counted: the machine of a place, or its host where that is not known.
const std::string& machine_of(const RankPlace& place);

bool on_one_host(std::span<const RankPlace> places);

/// "rank 3", "ranks 0, 3".
std::string rank_list(std::span<const int> ranks);

}  // namespace lockstep::device
