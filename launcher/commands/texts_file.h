// The --texts-file of commands.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::launcher {

/// Reads a --texts-file: a JSON array of strings. Fails with `kInvalidArgument` for anything else.
Result<std::vector<std::string>> read_texts_file(const std::filesystem::path& path);

}  // namespace lockstep::launcher
