// The command `lockstep verify`.
#pragma once

#include <filesystem>

#include "runtime/core/result.h"

namespace lockstep::launcher {

struct VerifyCommand {
  std::filesystem::path model;
  bool writes = false;
  bool replaces = false;  // with `writes`
  int threads = 1;
};

/// Compares the weight files with the sums beside them, or writes these sums, and prints what it did.
Result<void> verify(const VerifyCommand& command);

}  // namespace lockstep::launcher
