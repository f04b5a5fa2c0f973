#include "runtime/backends/neuron/launch/environment.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <system_error>

namespace lockstep::neuron {

Result<std::vector<Variable>> variables_of(const RankEnvironment& rank,
                                           const std::function<std::optional<std::string>(std::string_view)>& user) {
  std::vector<Variable> variables;
  const auto add = [&](const std::string& name, const std::string& ours) {
    const std::optional<std::string> theirs = user(name);
    if (!theirs || *theirs == ours) {
      variables.push_back({name, ours, theirs.has_value(), ""});
    } else {
      variables.push_back({name, *theirs, true, fmt::format("{}={} was set and stays (not {})", name, *theirs, ours)});
    }
  };
  // Set on every rank, even over the user's value, from which the core was chosen.
  const std::string core = fmt::format("{}", rank.core), visible = "NEURON_RT_VISIBLE_CORES";
  const auto shown = user(visible);
  const bool narrows = shown && *shown != core;
  variables.push_back({visible, core, false,
                       narrows ? fmt::format("{}={} was set; this rank takes core {}", visible, *shown, core) : ""});
  if (!rank.root.empty()) add("NEURON_RT_ROOT_COMM_ID", rank.root);
  add("NEURON_RT_EXEC_TIMEOUT", fmt::format("{}", static_cast<int64_t>(std::ceil(to_seconds(rank.step_deadline)))));
  if (rank.logical_core == 1 && !user("NEURON_LOGICAL_NC_CONFIG")) return variables;
  add("NEURON_LOGICAL_NC_CONFIG", fmt::format("{}", rank.logical_core));
  if (variables.back().note.empty()) return variables;
  return Error{ErrorKind::kFailedPrecondition,
               fmt::format("[runtime/backends/neuron] NEURON_LOGICAL_NC_CONFIG: found {}, expected {}, which the steps "
                           "are compiled for; "
                           "unset it, or compile with --lnc={} in --neuron-cc-flags-prefill and -decode",
                           variables.back().value, rank.logical_core, variables.back().value)};
}

Result<int> free_port() {
  const int handle = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const bool found = handle >= 0 && bind(handle, generic, size) == 0 && getsockname(handle, generic, &size) == 0;
  const int code = errno;
  if (handle >= 0) close(handle);
  if (found) return static_cast<int>(ntohs(address.sin_port));
  return Error{
      ErrorKind::kUnavailable,
      fmt::format(
          "[runtime/backends/neuron] cannot find a free port for NEURON_RT_ROOT_COMM_ID: {}, expected one; set the "
          "variable to ADDRESS:PORT of rank 0's host",
          std::generic_category().message(code))};
}

}  // namespace lockstep::neuron
