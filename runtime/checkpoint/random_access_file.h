// A file read by byte ranges. Private to this folder.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "runtime/core/result.h"

namespace lockstep::checkpoint {

/// The system call behind every read, replaceable by tests.
using PositionalRead = ssize_t (*)(int descriptor, void* dst, size_t size, off_t offset);

/// An open file. `read` is thread-safe.
class RandomAccessFile {
 public:
  /// Fails with `kNotFound` when the file does not exist, and with `kFailedPrecondition` when it cannot be opened.
  static Result<std::unique_ptr<RandomAccessFile>> open(const std::filesystem::path& path,
                                                        PositionalRead call = ::pread);
  ~RandomAccessFile();
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// The size of the file when it was opened.
  int64_t size() const { return size_; }

  /// Fills `dst` with the bytes from `offset` on, in as many calls as necessary. Fails with `kInvalidArgument` when the
  /// file is too short, and with `kFailedPrecondition` when the system cannot read it. @blocking
  Result<void> read(int64_t offset, std::span<std::byte> dst) const;

  /// Whether (nearly) all of the file was in the page cache when it was opened, as far as the system reports it.
  bool was_cached() const { return was_cached_; }

  /// Announces a read, so that the system can prefetch. Never waits for the disk.
  void expect(int64_t offset, int64_t bytes) const;

 private:
  RandomAccessFile(std::filesystem::path path, int descriptor, int64_t size, PositionalRead call);

  std::filesystem::path path_;
  int descriptor_;
  int64_t size_;
  bool was_cached_;
  PositionalRead call_;
};

}  // namespace lockstep::checkpoint
