#include "runtime/cache/key_lock.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "runtime/core/clock.h"
#include "runtime/core/readiness.h"

namespace lockstep::cache {
namespace {

constexpr uint64_t kMostHolderBytes = 1024;
constexpr double kLookAgainS = 0.5;  // polling interval: the abort flag and holders on other hosts cause no event

std::optional<Holder> read_holder(const std::filesystem::path& path) {
  const auto bytes = read_small_file(path, kMostHolderBytes);
  if (!bytes.has_value()) return std::nullopt;
  std::istringstream text(std::string(reinterpret_cast<const char*>(bytes.value().data()), bytes.value().size()));
  Holder holder;
  if (!(text >> holder.process >> holder.since >> holder.host)) return std::nullopt;  // not written yet
  return holder;
}

/// Records the holder of the lock, for messages only.
void write_holder(const OpenFile& file) {
  const std::string text = fmt::format("{} {} {}\n", process_id(), unix_milliseconds(), host_name());
  if (::ftruncate(file.get(), 0) != 0) return;
  [[maybe_unused]] const ssize_t written = ::pwrite(file.get(), text.data(), text.size(), 0);
}

/// Reports when a file opened for writing is closed. A lock file is closed when its holder releases it or dies.
class CloseEvents {
 public:
  explicit CloseEvents(const std::filesystem::path& path) : queue_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    if (queue_.is_open()) ::inotify_add_watch(queue_.get(), path.c_str(), IN_CLOSE_WRITE);
  }

  /// Returns at an event, or after at most `most_s`.
  void wait(double most_s) {
    if (!becomes_ready(queue_.get(), POLLIN, duration_of(most_s))) return;
    std::array<char, 4096> events;
    while (::read(queue_.get(), events.data(), events.size()) > 0) {
    }
  }

 private:
  OpenFile queue_;
};

Error waited_too_long(const std::filesystem::path& path, const std::string& holder, double most_s) {
  return {ErrorKind::kDeadlineExceeded,
          fmt::format("[runtime/cache] waited {:g} s for another compilation of the same step: found {} still at it, "
                      "expected its end; raise --compile-wait-s, or end that process ({})",
                      most_s, holder, path.string())};
}

Error aborted(const AbortFlag& flag) {
  return flag.reason().value_or(Error{ErrorKind::kCancelled, "[runtime/cache] a wait was ended"});
}

}  // namespace

std::string to_text(const Holder& holder) {
  return fmt::format("process {} on {} since {}", holder.process, holder.host, time_text(holder.since));
}

Result<KeyLock> KeyLock::acquire(const std::filesystem::path& path, const LockWait& wait) {
  LOCKSTEP_TRY_VOID(make_folders(path.parent_path()));
  KeyLock lock;
  LOCKSTEP_TRY(lock.file_, open_to_lock(path));
  const SteadyClock clock;
  const Deadline deadline(clock, std::chrono::duration_cast<Duration>(std::chrono::duration<double>(wait.most_s)));
  std::optional<CloseEvents> events;
  std::string holder;
  while (true) {
    const LockAttempt attempt = try_lock(lock.file_, LockKind::kExclusive);
    lock.excludes_ = attempt == LockAttempt::kLocked;
    if (attempt != LockAttempt::kHeldElsewhere) break;
    const auto found = read_holder(path);
    const std::string now = found ? to_text(*found) : "another process";
    if (deadline.has_passed()) return waited_too_long(path, now, wait.most_s);
    if (wait.abort != nullptr && wait.abort->is_raised()) return aborted(*wait.abort);
    if (now != holder && (found || holder.empty()) && wait.told) wait.told(now);
    holder = now;
    lock.has_waited_ = true;
    if (!events) {
      events.emplace(path);
      continue;  // it may have been released before the watch existed
    }
    events->wait(std::clamp(to_seconds(deadline.remaining()), 0.0, kLookAgainS));
  }
  if (lock.excludes_) write_holder(lock.file_);
  return lock;
}

KeyLock::~KeyLock() {
  // A later waiter must not read a stale name. After a crash it remains until the next holder overwrites it.
  if (file_.is_open() && excludes_) [[maybe_unused]]
    const int cut = ::ftruncate(file_.get(), 0);
}

}  // namespace lockstep::cache
