// A flag to end all waits of a process.
//
// Any thread may set it: a monitor on a down message, a signal watcher, a failed rank. Every wait of a `Communicator`
// and of the executor polls it. It is never cleared, and the first reason is kept.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "runtime/core/result.h"

namespace lockstep {

/// Set once, read by many. Thread-safe.
class AbortFlag {
 public:
  AbortFlag() = default;
  AbortFlag(const AbortFlag&) = delete;
  AbortFlag& operator=(const AbortFlag&) = delete;

  /// Raises the flag with a reason. Later calls change nothing; returns whether this call was the first.
  bool raise(Error reason) {
    std::lock_guard lock(mutex_);
    if (reason_) return false;
    reason_ = std::move(reason);
    raised_.store(true, std::memory_order_release);
    return true;
  }

  /// One relaxed load, cheap enough for a spinning wait.
  bool is_raised() const { return raised_.load(std::memory_order_relaxed); }

  /// Why the flag was raised; empty while it is not.
  std::optional<Error> reason() const {
    if (!raised_.load(std::memory_order_acquire)) return std::nullopt;
    std::lock_guard lock(mutex_);
    return reason_;
  }

 private:
  std::atomic<bool> raised_ = false;
  mutable std::mutex mutex_;
  std::optional<Error> reason_;
};

}  // namespace lockstep
