// The model of a command, and its number of ranks.
#pragma once

#include <filesystem>
#include <optional>

#include "lockstep/model.h"

namespace lockstep::launcher {

struct ModelArguments {
  std::filesystem::path directory;
  std::optional<int> ranks;  // --tp; default: the ranks that were started
  ModelOptions options;
};

}  // namespace lockstep::launcher
