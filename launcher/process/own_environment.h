// What this process was started with: only the launcher looks at it.
#pragma once

#include "runtime/process/child_process.h"

namespace lockstep::launcher {

/// This process's own environment.
process::EnvironmentMap own_environment();

}  // namespace lockstep::launcher
