// The options of an engine as text, and back: rank 0 tells them to the other ranks.
#pragma once

#include <string>

#include "lockstep/options.h"
#include "runtime/core/result.h"

namespace lockstep {

std::string to_text(const EngineOptions& options);

/// Fails with `kInternal` on a text that `to_text` did not make: ranks exchange them.
Result<EngineOptions> parse_engine_options(const std::string& text);

}  // namespace lockstep
