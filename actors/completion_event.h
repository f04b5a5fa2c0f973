// A door that opens once, with a word on how things ended. Actors open it; a process's main thread waits at it.
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
  /// Opens; `error` is empty when all went well. Later calls change nothing.
  void open(std::optional<Error> error) {
    {
      std::lock_guard lock(mutex_);
      if (is_open_) return;
      is_open_ = true;
      error_ = std::move(error);
    }
    opened_.notify_all();
  }

  /// Whether it opened within `patience`.
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
