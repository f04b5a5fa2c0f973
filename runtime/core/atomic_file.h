// Output files that are either whole or not there: written beside their name and renamed when complete.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string_view>

#include "runtime/core/result.h"

namespace lockstep {

/// Writes `parts` one after the other to `path`, replacing what was there in one step. Fails with `kInvalidArgument`
/// when the folder is not there or not writable (nothing is left behind).
Result<void> write_file(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts);

/// The same for text.
Result<void> write_text_file(const std::filesystem::path& path, std::string_view text);

/// A file that is written piece by piece and is there once it is whole. Destroying it before leaves nothing behind.
class AtomicFile {
 public:
  /// Fails with `kInvalidArgument` when the folder is not there or not writable.
  static Result<AtomicFile> create(const std::filesystem::path& path);

  AtomicFile(AtomicFile&&) = default;
  AtomicFile& operator=(AtomicFile&&) = default;
  ~AtomicFile();

  /// Fails with `kInvalidArgument` when the system cannot write, as does `commit`.
  Result<void> append(std::string_view text);
  /// The file takes its name, in place of what had it. Nothing may be appended after it.
  Result<void> commit();

 private:
  AtomicFile() = default;

  std::filesystem::path path_, partial_;  // `partial_` is empty once committed
  std::unique_ptr<std::ofstream> file_;
};

/// Whether `path` could be written: its folder is there and writable and it is not a folder itself. For refusing a bad
/// name before hours of work.
Result<void> check_writable(const std::filesystem::path& path, std::string_view option);

/// The whole file. Fails with `kNotFound` naming `option` when it cannot be read.
Result<std::string> read_text_file(const std::filesystem::path& path, std::string_view option);

}  // namespace lockstep
