#include "runtime/backends/neuron/launch/start.h"

#include <fmt/format.h>

#include "runtime/backends/neuron/launch/cores.h"
#include "runtime/backends/neuron/launch/environment.h"
#include "runtime/backends/neuron/launch/instances.h"
#include "runtime/backends/neuron/launch/settings.h"
#include "runtime/backends/neuron/option_rows.h"
#include "runtime/cache/user_cache.h"

namespace lockstep::neuron {
namespace {

constexpr const char* kVisible = "NEURON_RT_VISIBLE_CORES";
constexpr const char* kRoot = "NEURON_RT_ROOT_COMM_ID";

/// The cores requested by every rank's user, by rank. @collective @blocking
Result<std::vector<WantedCores>> wanted_cores(const device::RankSite& site, const device::OptionValues& values) {
  const std::optional<std::string> variable = site.environment(kVisible);
  const std::string option = device::OptionReader(option_rows(), values).text("neuron-cores");
  LOCKSTEP_TRY(const std::vector<std::string> told, site.exchange(option + "\n" + (variable ? "=" + *variable : "")));
  std::vector<WantedCores> wanted;
  for (const std::string& words : told) {
    const size_t end = words.find('\n');
    const std::string theirs = words.substr(end + 1);
    wanted.push_back({words.substr(0, end), theirs.empty() ? std::nullopt : std::optional(theirs.substr(1))});
  }
  return wanted;
}

/// The address where the ranks' runtimes meet, chosen by rank 0. @collective @blocking
Result<std::string> meeting_place(const device::RankSite& site) {
  if (site.size() == 1) return std::string();
  std::string mine;
  const auto choose = [&]() -> Result<void> {
    if (site.rank != 0) return ok();
    if (const auto theirs = site.environment(kRoot)) {
      mine = *theirs;
      return ok();
    }
    LOCKSTEP_TRY(const int port, free_port());
    mine = fmt::format("{}:{}", site.control_address, port);
    return ok();
  };
  LOCKSTEP_TRY_VOID(device::all_succeeded(site.exchange, choose()));
  LOCKSTEP_TRY(const std::vector<std::string> told, site.exchange(mine));
  return told.front();
}

/// "NAME=VALUE NAME=VALUE" for the variables that must change.
std::string to_be_set(const device::RankSite& site, const std::vector<Variable>& variables) {
  std::string line;
  for (const Variable& variable : variables) {
    if (site.environment(variable.name) == variable.value) continue;
    line += fmt::format("{}{}={}", line.empty() ? "" : " ", variable.name, variable.value);
  }
  return line;
}

Result<void> set_environment(const device::RankSite& site, const RankEnvironment& rank) {
  LOCKSTEP_TRY(const std::vector<Variable> variables, variables_of(rank, site.environment));
  if (const std::string missing = to_be_set(site, variables); !site.set_environment && !missing.empty()) {
    return Error{
        ErrorKind::kFailedPrecondition,
        fmt::format("[runtime/backends/neuron] cannot set the environment of the Neuron runtime: found {} to be "
                    "set in this process, expected a way to set it; set it before the program starts, or "
                    "allow it to be set",
                    missing)};
  }
  std::string line;
  for (const Variable& variable : variables) {
    if (!variable.note.empty() && site.log != nullptr) site.log->info("{}", variable.note);
    if (!variable.is_users && site.set_environment) site.set_environment(variable.name, variable.value);
    line += fmt::format("{}{}={}", line.empty() ? "" : " ", variable.name, variable.value);
  }
  if (site.log != nullptr) site.log->info("environment of the Neuron runtime: {}", line);
  return ok();
}

}  // namespace

Result<device::DevicePlan> place_ranks(const device::RankSite& site, const device::OptionValues& values) {
  if (site.form == device::RankForm::kThreads && site.size() > 1) {
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("[runtime/backends/neuron] --backend neuron: found {} ranks as threads, expected a process "
                    "for each: one process uses one core; start them with mpirun -n {} lockstep …",
                    site.size(), site.size())};
  }
  device::DevicePlan plan;
  LOCKSTEP_TRY(plan.warnings, check_instances(family_of(target_of(values)), site.places, site.degrees));
  LOCKSTEP_TRY(const std::vector<WantedCores> wanted, wanted_cores(site, values));
  LOCKSTEP_TRY(plan.ordinals, assign_cores(site.places, wanted));  // the same input on every rank
  for (const int core : plan.ordinals) plan.devices.push_back(fmt::format("neuron:{}", core));
  return plan;
}

Result<std::unique_ptr<device::Backend>> start_backend(const device::RankSite& site, const device::DevicePlan& plan,
                                                       const device::OptionValues& values) {
  std::unique_ptr<device::ArtifactCache> cache;
  const auto open = [&]() -> Result<void> {
    const cache::UserSite user{
        .build = site.build, .environment = site.environment, .log = site.log, .abort = site.abort};
    LOCKSTEP_TRY(cache, cache::open_user_cache({option_rows(), values}, user));
    return ok();
  };
  LOCKSTEP_TRY_VOID(device::all_succeeded(site.exchange, open()));
  LOCKSTEP_TRY(const std::string root, meeting_place(site));
  std::unique_ptr<device::Backend> backend;
  const auto start = [&]() -> Result<void> {
    LOCKSTEP_TRY(const Options options, backend_options(site, values));
    LOCKSTEP_TRY_VOID(set_environment(site, {.core = plan.ordinals.at(static_cast<size_t>(site.rank)),
                                             .root = root,
                                             .step_deadline = site.step_deadline,
                                             .logical_core = options.compiler.cores_per_logical_core()}));
    LOCKSTEP_TRY(backend, make_backend(options, std::move(cache)));
    return ok();
  };
  LOCKSTEP_TRY_VOID(device::all_succeeded(site.exchange, start()));
  return backend;
}

}  // namespace lockstep::neuron
