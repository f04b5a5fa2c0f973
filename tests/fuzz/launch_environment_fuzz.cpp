// Fuzzes the launcher's environment: it is refused with a message, or gives one rank of a group.
//
// Input: NAME=VALUE pairs, each ended by a line feed.
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/core/check.h"
#include "tests/fuzz/input_parts.h"
#include "transport/launch_environment.h"

using namespace lockstep;
using namespace lockstep::transport;

namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

Variables variables_of(std::string_view text) {
  Variables variables;
  for (const std::string_view line : fuzz::parts_of(text, '\n')) {
    const size_t sign = line.find('=');
    if (sign != std::string_view::npos) variables.emplace(line.substr(0, sign), line.substr(sign + 1));
  }
  return variables;
}

Result<LaunchEnvironment> read(const Variables& variables) {
  return read_launch_environment([&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto read_once = read(variables_of({reinterpret_cast<const char*>(data), size}));
  if (!read_once.has_value()) {
    LOCKSTEP_CHECK(read_once.error().kind == ErrorKind::kFailedPrecondition, read_once.error().message);
    return 0;
  }
  const LaunchEnvironment& environment = read_once.value();
  LOCKSTEP_CHECK(environment.rank >= 0, environment.rank);
  LOCKSTEP_CHECK(!environment.size || environment.rank < *environment.size, environment.rank, *environment.size);
  LOCKSTEP_CHECK(!environment.local_rank || *environment.local_rank >= 0, *environment.local_rank);
  LOCKSTEP_CHECK(!environment.local_size || *environment.local_size > 0, *environment.local_size);
  LOCKSTEP_CHECK(!environment.job_cores || *environment.job_cores >= 0, *environment.job_cores);
  for (const char* library : {"Open MPI 4.1.4", "MPICH 4.0.2", "another"}) {
    const auto fits = check_launcher(environment, library);
    if (!fits.has_value()) LOCKSTEP_CHECK(fits.error().kind == ErrorKind::kFailedPrecondition, fits.error().message);
    const bool is_alone = check_world(environment, 0, 1, library).has_value();
    if (environment.launcher == Launcher::kNone) LOCKSTEP_CHECK(is_alone);
  }
  if (environment.launcher != Launcher::kLockstep || !environment.meeting) return 0;
  const auto own = launch_variables(environment);
  const auto again = read({own.begin(), own.end()});
  LOCKSTEP_CHECK(again.has_value() && again.value().rank == environment.rank);
  LOCKSTEP_CHECK(again.value().size == environment.size && again.value().job == environment.job);
  return 0;
}
