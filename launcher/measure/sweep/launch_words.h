// How a point of a sweep is started: the words of its command line and the environment that it sees. Pure.
//
//   template   mpirun -n {ranks} --bind-to core        words, split as a shell splits plain quoting, without a shell
//   command    mpirun -n 4 --bind-to core lockstep bench … --tp 4 --json FILE
//
// Without a template one rank is started as it is and more by `mpirun -n {ranks}`; the template "threads" makes all
// ranks in one process, without MPI.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/measure/sweep/grid.h"
#include "runtime/process/child_process.h"

namespace lockstep::launcher {

/// The words of `text`: split at blanks; '…' is literal, "…" is literal except for backslashes before ", \, $ and `,
/// and a backslash takes the next character as it is. Nothing is expanded. Fails with `kInvalidArgument` for a quote
/// that is not closed.
Result<std::vector<std::string>> split_words(std::string_view text);

/// `words` as one line that a shell reads back as they are.
std::string quoted(const std::vector<std::string>& words);

/// A launch template, split.
struct LaunchTemplate {
  std::vector<std::string> words;  // empty: the default
  bool threads = false;

  /// Its program's name without folders; empty for the default and for threads.
  std::string program() const;
};

/// Fails with `kInvalidArgument` for quotes that are not closed, and when points with several ranks are wanted and the
/// template does not say {ranks}.
Result<LaunchTemplate> parse_launch_template(std::string_view text, int most_ranks);

/// What every point of a sweep starts.
struct BenchCommandLine {
  std::string program;               // lockstep itself
  std::vector<std::string> model;    // --model DIR, or --random-weights --config F
  std::vector<std::string> options;  // handed on
};

/// What stands before the program that runs as `ranks` ranks: the template's words, or mpirun for more than one.
std::vector<std::string> words_before(const LaunchTemplate& launch, int ranks);

/// The command of one point, which writes its result to `json`.
std::vector<std::string> point_words(const LaunchTemplate& launch, const BenchCommandLine& bench,
                                     const PointShape& shape, const std::filesystem::path& json);

/// `own` without what an outer job left in it, which would make the ranks of a point believe that they belong to that
/// job. Kept on purpose: OMPI_MCA_*, PMIX_MCA_* and OMPI_ALLOW_RUN_AS_ROOT*, which users set (a sweep does not run
/// inside a rank, whose OMPI_MCA_* would be the outer mpirun's), SLURM_CONF, and for srun the variables of the Slurm
/// job, without those of a step or a task.
process::EnvironmentMap scrubbed(const process::EnvironmentMap& own, const LaunchTemplate& launch);

}  // namespace lockstep::launcher
