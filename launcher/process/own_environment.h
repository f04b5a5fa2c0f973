// What this process was started with: only the launcher looks at it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/process/child_process.h"

namespace lockstep::launcher {

/// This process's own environment.
process::EnvironmentMap own_environment();

/// One of its variables; empty when it is not set.
std::optional<std::string> own_variable(std::string_view name);

}  // namespace lockstep::launcher
