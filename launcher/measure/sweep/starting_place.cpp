#include "launcher/measure/sweep/starting_place.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>

#include "launcher/process/own_environment.h"
#include "runtime/process/child_process.h"
#include "transport/launch_environment.h"

namespace lockstep::launcher {

Machine this_machine() {
  Machine machine;
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) == 0) machine.host = host.data();
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof cores, &cores) == 0) machine.cores = CPU_COUNT(&cores);
  std::ifstream about("/proc/cpuinfo");
  for (std::string line; machine.cpu.empty() && std::getline(about, line);) {
    if (line.starts_with("model name")) machine.cpu = line.substr(std::min(line.find(':') + 2, line.size()));
  }
  return machine;
}

Result<void> check_not_launched(std::string_view command) {
  const process::EnvironmentMap own = own_environment();
  LOCKSTEP_TRY(const auto place,
               transport::read_launch_environment([&](std::string_view name) -> std::optional<std::string> {
                 const auto found = own.find(std::string(name));
                 return found == own.end() ? std::nullopt : std::optional(found->second);
               }));
  if (place.launcher == transport::Launcher::kNone) return ok();
  return Error{
      ErrorKind::kFailedPrecondition,
      fmt::format("[launcher] cannot run here: found a process started by {0}, expected none; start lockstep {1} "
                  "by itself (in a batch job: without srun): it starts the ranks itself",
                  transport::to_string(place.launcher), command)};
}

}  // namespace lockstep::launcher
