// A trial of mpirun with a sweep's largest number of ranks, before the points.
//
//   template   mpirun -n {ranks} --bind-to core        trial   mpirun -n 4 --bind-to core true
//
// Open MPI starts no more ranks than it counts slots, which are physical cores unless a host file, a resource manager
// or --oversubscribe sets another number, so only a trial shows it. Other launchers are not tried.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/measure/sweep/journal.h"
#include "launcher/measure/sweep/launch_words.h"

namespace lockstep::launcher {

/// The trial's command; empty for one rank and if no word of the template is mpirun or mpiexec. Pure.
std::vector<std::string> trial_words(const LaunchTemplate& launch, int ranks);

/// Fails with `kFailedPrecondition`, naming the flags that allow it, if `output` of a trial reports too few slots or
/// cores. Pure.
Result<void> judge_trial(const LaunchTemplate& launch, int ranks, const Machine& machine, std::string_view output);

/// Starts the trial. Fails as `judge_trial`; other failures of a trial are left to the points, which report the reason.
/// @blocking
Result<void> try_launch(const LaunchTemplate& launch, int ranks, const Machine& machine,
                        const process::EnvironmentMap& environment, const process::ChildStop& stop);

}  // namespace lockstep::launcher
