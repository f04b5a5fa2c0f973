// The environment and command of this process; the engine reads them only here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/process/child_process.h"

namespace lockstep::group {

/// The value of a variable; empty when it is not set.
std::optional<std::string> environment(std::string_view name);

process::EnvironmentMap whole_environment();

/// The file of this process's program, and its arguments (/proc/self, proc(5)). Fails with `kUnavailable` without
/// /proc.
Result<std::vector<std::string>> own_command();

}  // namespace lockstep::group
