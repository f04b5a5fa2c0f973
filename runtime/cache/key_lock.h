// One maker of an artifact at a time, over processes and threads: a lock on a file, which the kernel lifts however its
// holder ends. The file says who holds it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "runtime/cache/files.h"
#include "runtime/core/abort_flag.h"

namespace lockstep::cache {

/// Who holds a lock, as the holder wrote it down.
struct Holder {
  std::string host;
  int process = 0;
  int64_t since = 0;  // milliseconds since 1970
};

/// "process 123 on HOST since 2026-11-21 20:15:03 UTC".
std::string to_text(const Holder& holder);

/// How a lock is waited for.
struct LockWait {
  double most_s = 0.0;
  const AbortFlag* abort = nullptr;              // ends the wait; may be null
  std::function<void(const std::string&)> told;  // for whom, when the wait begins and when the holder changes
};

/// A lock that is held as long as the object lives.
class KeyLock {
 public:
  /// Waits until the file at `path` can be locked. Fails with `kDeadlineExceeded` naming the holder, with the reason of
  /// the abort flag, with `kUnavailable` when the file cannot be made. @blocking
  static Result<KeyLock> acquire(const std::filesystem::path& path, const LockWait& wait);

  KeyLock(KeyLock&&) = default;
  ~KeyLock();

  bool has_waited() const { return has_waited_; }
  /// False where the file system has no locks: nobody is kept out.
  bool excludes() const { return excludes_; }

 private:
  KeyLock() = default;

  OpenFile file_;
  bool has_waited_ = false, excludes_ = true;
};

}  // namespace lockstep::cache
