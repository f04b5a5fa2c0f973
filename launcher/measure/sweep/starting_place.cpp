#include "launcher/measure/sweep/starting_place.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <optional>

#include "launcher/process/own_environment.h"
#include "runtime/process/child_process.h"
#include "runtime/topology/discovery.h"
#include "transport/bootstrap.h"
#include "transport/launch_environment.h"

namespace lockstep::launcher {

std::vector<std::vector<int>> own_cores() {
  const std::vector<int> threads = transport::own_hardware_threads();
  const auto found = topology::read_machine(topology::Devices::kNone);
  const topology::Machine machine = found.has_value() ? found.value() : topology::Machine();
  return machine.divide(threads, machine.cores_of(threads).size());
}

Machine this_machine() {
  Machine machine;
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) == 0) machine.host = host.data();
  const auto found = topology::read_machine(topology::Devices::kNone);
  const topology::Machine here = found.has_value() ? found.value() : topology::Machine();
  machine.cores = static_cast<int>(here.cores_of(transport::own_hardware_threads()).size());
  machine.cpu = here.processor;
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
