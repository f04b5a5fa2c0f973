// The environment and age of this process; only the launcher reads them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/process/child_process.h"

namespace lockstep::launcher {

/// This process's own environment.
process::EnvironmentMap own_environment();

/// The value of one variable; empty if it is not set.
std::optional<std::string> own_variable(std::string_view name);

/// Sets one variable, for libraries that read their settings there.
void set_own_variable(const std::string& name, const std::string& value);

/// Seconds since this process was started (/proc/self/stat, proc(5)); zero if unknown.
double process_age_s();

}  // namespace lockstep::launcher
