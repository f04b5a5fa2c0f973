// A lock for the single maker of an artifact, across processes and threads. It is a file lock, so the kernel releases
// it however its holder ends. The file names the holder.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "runtime/cache/files.h"
#include "runtime/core/abort_flag.h"

namespace lockstep::cache {

/// The holder of a lock, as recorded in its file.
struct Holder {
  std::string host;
  int process = 0;
  int64_t since = 0;  // milliseconds since 1970
};

/// "process 123 on HOST since 2026-11-21 20:15:03 UTC".
std::string to_text(const Holder& holder);

/// Parameters of a wait for a lock.
struct LockWait {
  double most_s = 0.0;
  const AbortFlag* abort = nullptr;              // ends the wait; may be null
  std::function<void(const std::string&)> told;  // receives the holder when the wait begins and when the holder changes
};

/// A lock, held for the life of the object.
class KeyLock {
 public:
  /// Waits until the file at `path` can be locked. Fails with `kDeadlineExceeded` naming the holder, with the reason of
  /// the abort flag, with `kUnavailable` when the file cannot be created. @blocking
  static Result<KeyLock> acquire(const std::filesystem::path& path, const LockWait& wait);

  KeyLock(KeyLock&&) = default;
  ~KeyLock();

  bool has_waited() const { return has_waited_; }
  /// False if the file system has no locks; then there is no exclusion.
  bool excludes() const { return excludes_; }

 private:
  KeyLock() = default;

  OpenFile file_;
  bool has_waited_ = false, excludes_ = true;
};

}  // namespace lockstep::cache
