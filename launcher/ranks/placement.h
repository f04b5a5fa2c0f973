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

#include "runtime/core/result.h"
#include "transport/bootstrap.h"
#include "transport/launch_environment.h"

namespace lockstep::launcher {

/// What a finding does to a run: it costs speed, or it cannot work.
enum class Severity { kWarning, kFatal };

/// Something about a launch that its user should change.
struct Finding {
  Severity severity = Severity::kWarning;
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

/// The first fatal finding as an error of kind `kFailedPrecondition` (exit code 4); ok when there is none.
Result<void> refuse_fatal(std::span<const Finding> findings);

}  // namespace lockstep::launcher
