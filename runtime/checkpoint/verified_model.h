// Verification of a model's weight files against the sums beside them, and writing these sums.
#pragma once

#include <cstdint>
#include <filesystem>

#include "runtime/core/result.h"

namespace lockstep::checkpoint {

/// What to do with the sums of a model.
enum class SumsAction {
  kCheck,    // compare
  kWrite,    // write them, unless others are there
  kReplace,  // write them in any case
};

struct VerifyOptions {
  SumsAction action = SumsAction::kCheck;
  int threads = 1;
};

struct VerifiedModel {
  std::filesystem::path sums;  // the file that was read or written
  int64_t tensors = 0;
  int64_t bytes = 0;  // of the weight files
};

/// Reads all weights of `model`, a directory or a GGUF file. Fails with `kNotFound` without sums to compare with, with
/// `kInvalidArgument` naming tensors whose values differ from their sums, sums of other files, and other sums where
/// they would be overwritten; else as `open_model_checkpoint`. @blocking (disk)
Result<VerifiedModel> verify_model(const std::filesystem::path& model, const VerifyOptions& options);

}  // namespace lockstep::checkpoint
