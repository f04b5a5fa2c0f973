// Output files that are either whole or not there: written beside their name and renamed when complete.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "runtime/core/result.h"

namespace lockstep::launcher {

/// Writes `parts` one after the other to `path`, replacing what was there in one step. Fails with `kInvalidArgument`
/// when the folder is not there or not writable (nothing is left behind).
Result<void> write_file(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts);

/// The same for text.
Result<void> write_text_file(const std::filesystem::path& path, std::string_view text);

/// Whether `path` could be written: its folder is there and writable and it is not a folder itself. For refusing a bad
/// name before hours of work.
Result<void> check_writable(const std::filesystem::path& path, std::string_view option);

/// The whole file. Fails with `kNotFound` naming `option` when it cannot be read.
Result<std::string> read_text_file(const std::filesystem::path& path, std::string_view option);

}  // namespace lockstep::launcher
