// File system operations of the cache: durable writes, renames and locks.
//
// Files are on disk before they get their final name. A lock ends with its process. All failures are `Error`s.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::cache {

/// A descriptor that is closed with the object, which also releases its locks.
class OpenFile {
 public:
  OpenFile() = default;
  explicit OpenFile(int descriptor) : descriptor_(descriptor) {}
  OpenFile(OpenFile&& other) noexcept : descriptor_(other.release()) {}
  OpenFile& operator=(OpenFile&& other) noexcept;
  ~OpenFile();

  int get() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

 private:
  int release();

  int descriptor_ = -1;
};

/// The result of an attempt to lock without waiting.
enum class LockAttempt {
  kLocked,
  kHeldElsewhere,
  kNoLocks,  // not supported by the file system
};
enum class LockKind { kShared, kExclusive };

/// `file` must be open. Locks belong to the open file, so two openings in one process exclude each other.
LockAttempt try_lock(const OpenFile& file, LockKind kind);

/// Whether `path` still names the file opened as `file`; another process may have renamed it.
bool is_still(const OpenFile& file, const std::filesystem::path& path);

/// Opens a file for reading; empty when it cannot be opened.
std::optional<OpenFile> open_to_read(const std::filesystem::path& path);

/// Opens a lock file, and creates it if necessary. Fails with `kUnavailable`.
Result<OpenFile> open_to_lock(const std::filesystem::path& path);

/// Reads a small file. Fails with `kNotFound`, `kUnavailable`, or `kInvalidArgument` when it exceeds `most` bytes.
Result<std::vector<std::byte>> read_small_file(const std::filesystem::path& path, uint64_t most);

/// Writes a file and returns when it is on disk. Fails with `kUnavailable`.
Result<void> write_durably(const std::filesystem::path& path, std::span<const std::byte> bytes);
/// Flushes an existing file to disk. Fails with `kUnavailable`.
Result<void> make_durable(const std::filesystem::path& path);

/// Copies a file and replaces an existing `to`. Fails with `kUnavailable`.
Result<void> copy_durably(const std::filesystem::path& from, const std::filesystem::path& to);

/// Makes a folder and its parents. Fails with `kUnavailable`.
Result<void> make_folders(const std::filesystem::path& folder);

/// A folder used by one process only; removed with its contents unless it was renamed.
class PrivateFolder {
 public:
  /// Creates `parent/name.HOST.PID.N`. Fails with `kUnavailable`.
  static Result<PrivateFolder> create(const std::filesystem::path& parent, const std::string& name);

  PrivateFolder(PrivateFolder&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  PrivateFolder& operator=(PrivateFolder&&) = delete;
  ~PrivateFolder();

  const std::filesystem::path& path() const { return path_; }

  /// Renames the folder to `to` atomically; returns false when a non-empty folder has that name. A machine crash soon
  /// afterwards may undo the rename. Fails with `kUnavailable`.
  Result<bool> rename_to(const std::filesystem::path& to);

 private:
  explicit PrivateFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
};

/// "cannot VERB PATH: WHY; …" with advice on a full disk, a read-only file system, or missing permissions.
Error file_error(std::string_view verb, const std::filesystem::path& path, int code);

std::string host_name();
int process_id();

/// Milliseconds since 1970, and their readable form: "2026-11-21 20:15:03 UTC".
int64_t unix_milliseconds();
std::string time_text(int64_t unix_milliseconds);

}  // namespace lockstep::cache
