// What the system does for the cache: folders and files that are durable before they have their name, and locks that
// end with whoever holds them. Its failures become errors here.
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

/// A descriptor that is closed with the object; locks on it end then.
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

/// What became of an attempt to lock without waiting.
enum class LockAttempt {
  kLocked,
  kHeldElsewhere,
  kNoLocks,  // the file system has none
};
enum class LockKind { kShared, kExclusive };

/// `file` must be open. Locks belong to the open file: two openings in one process exclude each other.
LockAttempt try_lock(const OpenFile& file, LockKind kind);

/// Whether `path` still names what `file` opened: it may have been renamed in between.
bool is_still(const OpenFile& file, const std::filesystem::path& path);

/// An opening to read; nothing when it cannot be opened.
std::optional<OpenFile> open_to_read(const std::filesystem::path& path);

/// Opens a file for its lock, made where it is missing. Fails with `kUnavailable`.
Result<OpenFile> open_to_lock(const std::filesystem::path& path);

/// At most `most` bytes of a small file. Fails with `kNotFound`, `kUnavailable`, or `kInvalidArgument` when it is
/// longer.
Result<std::vector<std::byte>> read_small_file(const std::filesystem::path& path, uint64_t most);

/// Writes a file that is on disk when this returns. Fails with `kUnavailable`.
Result<void> write_durably(const std::filesystem::path& path, std::span<const std::byte> bytes);
/// Puts what another wrote on disk. Fails with `kUnavailable`.
Result<void> make_durable(const std::filesystem::path& path);

/// Copies a file; what was at `to` is replaced. Fails with `kUnavailable`.
Result<void> copy_durably(const std::filesystem::path& from, const std::filesystem::path& to);

/// Makes a folder and those above it. Fails with `kUnavailable`.
Result<void> make_folders(const std::filesystem::path& folder);

/// A folder that nobody else writes in; removed with all that is in it unless it was renamed.
class PrivateFolder {
 public:
  /// A new folder `parent/name.HOST.PID.N`. Fails with `kUnavailable`.
  static Result<PrivateFolder> create(const std::filesystem::path& parent, const std::string& name);

  PrivateFolder(PrivateFolder&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  PrivateFolder& operator=(PrivateFolder&&) = delete;
  ~PrivateFolder();

  const std::filesystem::path& path() const { return path_; }

  /// Gives it the name `to`, whole or not at all; returns false when a folder with something in it has that name. A
  /// crash of the machine soon after may undo it. Fails with `kUnavailable`.
  Result<bool> rename_to(const std::filesystem::path& to);

 private:
  explicit PrivateFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
};

/// "cannot VERB PATH: WHY; …" with what to do about a full disk, a file system without writing, or missing rights.
Error file_error(std::string_view verb, const std::filesystem::path& path, int code);

std::string host_name();
int process_id();

/// Milliseconds since 1970, and how people write it: "2026-11-21 20:15:03 UTC".
int64_t unix_milliseconds();
std::string time_text(int64_t unix_milliseconds);

}  // namespace lockstep::cache
