// The command `lockstep quantise`.
#pragma once

#include <filesystem>
#include <optional>

#include "lockstep/model.h"
#include "runtime/core/result.h"

namespace lockstep::launcher {

struct QuantiseCommand {
  std::filesystem::path model;
  MatrixFormat weights;
  std::filesystem::path out;
  std::optional<std::filesystem::path> text;  // whose perplexity is measured before and after
  int threads = 1;
  std::optional<std::filesystem::path> json;
};

/// Writes the copy, and prints or writes the errors of its matrices.
Result<void> quantise(const QuantiseCommand& command);

}  // namespace lockstep::launcher
