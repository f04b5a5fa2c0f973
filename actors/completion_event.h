// An event that is set once, with the outcome. Actors set it; the process's main thread waits for it.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "runtime/core/clock.h"
#include "runtime/core/result.h"

namespace lockstep::actors {

/// Thread-safe.
class CompletionEvent {
 public:
  /// Sets the event; `error` is empty on success. Later calls change nothing.
  void open(std::optional<Error> error) {
    {
      std::lock_guard lock(mutex_);
      if (is_open_) return;
      is_open_ = true;
      error_ = std::move(error);
    }
    opened_.notify_all();
  }

  /// Whether the event was set within `patience`.
  /// @blocking
  bool wait(Duration patience) {
    std::unique_lock lock(mutex_);
    return opened_.wait_for(lock, patience, [this] { return is_open_; });
  }

  bool is_open() const {
    std::lock_guard lock(mutex_);
    return is_open_;
  }

  std::optional<Error> error() const {
    std::lock_guard lock(mutex_);
    return error_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable opened_;
  bool is_open_ = false;
  std::optional<Error> error_;
};

}  // namespace lockstep::actors
