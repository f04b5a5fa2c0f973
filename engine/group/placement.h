// Placement of ranks on hosts and cores: its table, and findings about it. Pure; every rank computes the same.
//
//   node0   cores 0 1 2 3 4 5 6 7        node1   cores 0 1 2 3 4 5 6 7
//   rank 0        █                      rank 2  █ █ █ █ █ █ █ █
//   rank 1          █                            one rank here, two there: uneven
//                 two of eight cores in use: bound to too few cores
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/bootstrap.h"
#include "transport/launch_environment.h"

namespace lockstep::group {

/// A property of a launch that costs speed and that the user can change.
struct Finding {
  std::string what;  // found and expected
  std::string fix;   // the command-line flag or step that changes it

  friend bool operator==(const Finding&, const Finding&) = default;
};

/// The placement of one rank.
struct PlacedRank {
  transport::RankPlace place;
  int threads = 1;             // compute threads
  std::string device = "cpu";  // "cpu", "cuda:1"
};

/// The placement of all ranks of a job. Ranks that are threads of one process share its cores by design.
struct Placement {
  transport::Launcher launcher = transport::Launcher::kNone;
  std::vector<PlacedRank> ranks;  // by rank; not empty

  int hosts() const;
};

/// The ranks of `places` with `threads` each; by default a rank has a thread for each core of its own, and its share of
/// the cores that it has in common with other ranks of its machine.
Placement place_threads(std::span<const transport::RankPlace> places, transport::Launcher launcher,
                        std::optional<int> threads);

/// Finds too few cores, cores shared while others idle, ranks bound to too few cores, and uneven hosts. The worst kinds
/// come first, one finding per kind.
std::vector<Finding> judge(const Placement& placement);

/// "0-3,8", in any order.
std::string core_list(std::span<const int> cores);

/// rank → host → device → cores as a table with a header line: a line per rank, or a line per host for many ranks.
std::string rank_table(const Placement& placement);

}  // namespace lockstep::group
