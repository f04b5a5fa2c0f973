// The command line and environment of a sweep's points. Pure.
//
//   template   mpirun -n {ranks} --bind-to core        words, split as a shell splits plain quoting, without a shell
//   command    mpirun -n 4 --bind-to core lockstep bench … --tp 4 --json FILE
//
// Without a template, one rank is started directly and several by `mpirun -n {ranks}`. The template "threads" runs all
// ranks in one process, "processes" lets lockstep start them: both without MPI.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/measure/sweep/grid.h"
#include "runtime/process/child_process.h"

namespace lockstep::launcher {

/// `words` as one line that a shell splits into the same words.
std::string quoted(const std::vector<std::string>& words);

/// A launch template, split.
struct LaunchTemplate {
  std::vector<std::string> words;  // empty: the default
  std::string own;                 // "threads", "processes": a --launch of lockstep instead of a launcher

  /// Its program's name without folders; empty without words.
  std::string program() const;
};

/// Fails with `kInvalidArgument` for quotes that are not closed, and for a template without {ranks} if points have
/// several ranks.
Result<LaunchTemplate> parse_launch_template(std::string_view text, int most_ranks);

/// The lockstep command that all points of a sweep share.
struct BenchCommandLine {
  std::string program;               // lockstep itself
  std::vector<std::string> model;    // --model DIR, or --random-weights --config F
  std::vector<std::string> options;  // forwarded to bench
};

/// The words in front of a program that runs as `ranks` ranks: the template's words, or mpirun for more than one.
std::vector<std::string> words_before(const LaunchTemplate& launch, int ranks);

/// The command of one of a point's groups, which writes its result to `json`. `barrier`: its end of the groups'
/// barrier, if there are several.
std::vector<std::string> group_words(const LaunchTemplate& launch, const BenchCommandLine& bench,
                                     const PointShape& shape, const std::filesystem::path& json,
                                     std::optional<int> barrier = {});

/// Fails with `kUnsupported` for several replicas under a launcher, which would put their ranks on the same cores.
Result<void> check_launch_of_replicas(const LaunchTemplate& launch, int most_replicas);

/// `own` without variables of an outer job, which would make a point's ranks join that job. Kept on purpose:
/// OMPI_MCA_*, PMIX_MCA_* and OMPI_ALLOW_RUN_AS_ROOT*, which users set (a sweep does not run inside a rank, whose
/// OMPI_MCA_* would be the outer mpirun's), SLURM_CONF, and for srun the variables of the Slurm job, without those of a
/// step or a task.
process::EnvironmentMap scrubbed(const process::EnvironmentMap& own, const LaunchTemplate& launch);

}  // namespace lockstep::launcher
