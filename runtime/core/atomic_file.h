// Output files written under a temporary name and renamed when complete; pipes and devices in place.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "runtime/core/descriptor.h"
#include "runtime/core/result.h"

namespace lockstep {

/// Writes `parts` one after the other to `path` and replaces an existing file in one step, as an `AtomicFile` does.
/// Fails with `kInvalidArgument` when the folder is missing or not writable, and then leaves nothing behind.
Result<void> write_file(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts);

enum class FileAccess {
  kUsual,  // as the process's umask says
  kOwner,  // readable and writable by this user alone, from the start: for secrets
};

/// The same for text.
Result<void> write_text_file(const std::filesystem::path& path, std::string_view text,
                             FileAccess access = FileAccess::kUsual);

/// A file that is written piece by piece and appears under its name on `commit`. Without `commit`, nothing remains.
/// A symbolic link stays, and the file that it names is written. With `kUsual`, a pipe or a device is written in place:
/// what has reached it remains, also without `commit`.
class AtomicFile {
 public:
  /// Fails with `kInvalidArgument` when the folder is missing or not writable, or a named pipe has no reader; does not
  /// wait for one. A link is not followed with `kOwner`.
  static Result<AtomicFile> create(const std::filesystem::path& path, FileAccess access = FileAccess::kUsual);

  AtomicFile(AtomicFile&&) = default;
  AtomicFile& operator=(AtomicFile&&) = default;
  ~AtomicFile();

  /// Fails with `kInvalidArgument` when the system cannot write, as does `commit`. @blocking while a pipe is full.
  Result<void> append(std::string_view text);
  /// Renames the file to its path, replacing an existing regular file. Nothing may be appended afterwards.
  Result<void> commit();

 private:
  AtomicFile() = default;
  Result<void> write(std::string_view text);

  std::filesystem::path path_, partial_;  // `partial_` is empty once committed, and for a file in place
  Descriptor file_;
  std::string buffer_;  // appended, not written yet
};

/// Fails unless `path` could be written: it is a pipe or device that may be written, or its folder exists and is
/// writable and `path` is not a folder itself. Opens nothing. Detects a bad path before hours of work.
Result<void> check_writable(const std::filesystem::path& path, std::string_view option);

/// The contents of the file. Fails with `kNotFound` naming `option` when it cannot be read.
Result<std::string> read_text_file(const std::filesystem::path& path, std::string_view option);

}  // namespace lockstep
