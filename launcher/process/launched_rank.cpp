#include "launcher/process/launched_rank.h"

#include "launcher/process/own_environment.h"
#include "transport/launch_environment.h"

namespace lockstep::launcher {

Result<std::optional<LaunchedRank>> launched_rank() {
  LOCKSTEP_TRY(const transport::LaunchEnvironment launch, transport::read_launch_environment(own_variable));
  const bool by_launcher =
      launch.launcher != transport::Launcher::kNone && launch.launcher != transport::Launcher::kLockstep;
  if (!by_launcher || launch.size == 1) return std::optional<LaunchedRank>();
  return std::optional(LaunchedRank{.rank = launch.rank, .launcher = std::string(to_string(launch.launcher))});
}

}  // namespace lockstep::launcher
