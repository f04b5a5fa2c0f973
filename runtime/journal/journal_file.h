// The file of a journal, with exclusive access and durable writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "runtime/core/result.h"
#include "runtime/journal/frames.h"

namespace lockstep::journal {

/// The file inside a journal's folder.
std::filesystem::path path_of_file(const std::filesystem::path& folder);

/// An open file. Used by one thread at a time. Its lock ends with the object or the process, even after a crash.
class JournalFile {
 public:
  enum class Access { kReadOnly, kExclusive };

  /// Opens the file of `folder`. For exclusive access, creates folder (not its parent) and file if missing, and checks
  /// that the disk has some free space. Fails with `kNotFound` (read only), `kInvalidArgument` when the folder or the
  /// file cannot be used, `kFailedPrecondition` when another process has it open, `kUnavailable` when the disk is full.
  static Result<std::unique_ptr<JournalFile>> open(const std::filesystem::path& folder, Access access);

  ~JournalFile();
  JournalFile(const JournalFile&) = delete;
  JournalFile& operator=(const JournalFile&) = delete;

  int64_t size() const { return size_; }

  /// Fails with `kUnavailable` when the system cannot read.
  Result<void> read(int64_t offset, std::span<std::byte> to) const;

  /// For `walk_records`; borrows the file.
  Medium medium() const;

  /// Replaces everything from `offset` on by `bytes`, and returns when they are on disk. Fails with `kUnavailable`;
  /// then the file ends at `offset`, if the system could truncate it.
  Result<void> write_end(int64_t offset, std::span<const std::byte> bytes);

 private:
  JournalFile(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  Result<void> prepare(Access access);
  Result<void> write_all(int64_t offset, std::span<const std::byte> bytes) const;

  std::filesystem::path path_;
  int descriptor_;
  int64_t size_ = 0;
};

}  // namespace lockstep::journal
