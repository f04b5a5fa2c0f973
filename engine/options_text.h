// Conversion of engine options to text and back, for rank 0's broadcast.
#pragma once

#include <string>

#include "lockstep/options.h"
#include "runtime/core/result.h"

namespace lockstep {

std::string to_text(const EngineOptions& options);

/// Fails with `kInternal` for text that `to_text` did not write, since ranks exchange it.
Result<EngineOptions> parse_engine_options(const std::string& text);

}  // namespace lockstep
