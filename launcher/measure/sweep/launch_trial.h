// Whether mpirun would start the largest point of a sweep, asked before the first one runs.
//
//   template   mpirun -n {ranks} --bind-to core        trial   mpirun -n 4 --bind-to core true
//
// Open MPI starts no more ranks than it counts slots, which are physical cores unless a host file, a resource manager
// or
// --oversubscribe says otherwise: only a trial tells. Other launchers are not tried.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/measure/sweep/journal.h"
#include "launcher/measure/sweep/launch_words.h"

namespace lockstep::launcher {

/// What a trial starts; empty for one rank and where no word of the template is mpirun or mpiexec. Pure.
std::vector<std::string> trial_words(const LaunchTemplate& launch, int ranks);

/// Fails with `kFailedPrecondition`, with the flags that allow it, when `output` of a trial says that there are not
/// enough slots or cores. Pure.
Result<void> judge_trial(const LaunchTemplate& launch, int ranks, const Machine& machine, std::string_view output);

/// Starts the trial. Fails as `judge_trial`; a trial that fails for another reason is left to the points, which say
/// why. @blocking
Result<void> try_launch(const LaunchTemplate& launch, int ranks, const Machine& machine,
                        const process::EnvironmentMap& environment, const process::ChildStop& stop);

}  // namespace lockstep::launcher
