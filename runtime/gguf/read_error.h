// Errors about GGUF files. Private to this folder.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string_view>

#include "runtime/core/result.h"

namespace lockstep::gguf {

/// "[runtime/gguf] cannot read <file>: <found …, expected …>; …": a file that breaks the format.
inline Error damaged(const std::filesystem::path& file, std::string_view found_and_expected) {
  return {ErrorKind::kInvalidArgument, fmt::format("[runtime/gguf] cannot read {}: {}; the file is damaged, fetch it "
                                                   "again",
                                                   file.string(), found_and_expected)};
}

/// A valid file that is not supported.
inline Error unsupported(const std::filesystem::path& file, std::string_view found_and_expected) {
  return {ErrorKind::kUnsupported, fmt::format("[runtime/gguf] cannot use {}: {}; take another file of the model",
                                               file.string(), found_and_expected)};
}

}  // namespace lockstep::gguf
