// Where the ranks are, and whether that is a good place: facts in, a table and findings out. Pure; every rank computes
// the same.
//
//   node0   cores 0 1 2 3 4 5 6 7        node1   cores 0 1 2 3 4 5 6 7
//   rank 0        █                      rank 2  █ █ █ █ █ █ █ █
//   rank 1          █                            one rank here, two there: uneven
//                 two of eight cores in use: bound too narrowly
#pragma once

#include <span>
#include <string>
#include <vector>

#include "transport/bootstrap.h"
#include "transport/launch_environment.h"

namespace lockstep::group {

/// Something about a launch that costs speed and that its user can change.
struct Finding {
  std::string what;  // what was found and expected
  std::string fix;   // the command-line flag or step that changes it

  friend bool operator==(const Finding&, const Finding&) = default;
};

/// One rank as it was placed.
struct PlacedRank {
  transport::RankPlace place;
  int threads = 1;             // that it computes with
  std::string device = "cpu";  // "cpu", "cuda:1"
};

/// All ranks of a job. Ranks that are threads of one process share its cores, by design.
struct Placement {
  transport::Launcher launcher = transport::Launcher::kNone;
  std::vector<PlacedRank> ranks;  // by rank; not empty

  int hosts() const;
};

/// Too few cores, cores shared while others idle, ranks bound too narrowly, uneven hosts; the worst kinds first, one
/// finding a kind.
std::vector<Finding> judge(const Placement& placement);

/// "0-3,8".
std::string core_list(std::span<const int> cores);

/// rank → host → device → cores as a table with a header line; a line per rank, of many ranks a line per host.
std::string rank_table(const Placement& placement);

}  // namespace lockstep::group
