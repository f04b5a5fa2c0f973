// The command `lockstep tokenize`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::launcher {

struct TokenizeCommand {
  std::filesystem::path model;
  std::vector<std::string> texts;
  std::optional<std::filesystem::path> texts_file;
  bool special_tokens = true;
  std::optional<std::filesystem::path> json;
};

/// Prints or writes token ids and the text that they decode to.
Result<void> tokenize(const TokenizeCommand& command);

}  // namespace lockstep::launcher
