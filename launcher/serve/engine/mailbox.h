// Functions for a thread that runs Cap'n Proto's event loop.
#pragma once

#include <kj/async.h>

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace lockstep::serve {

/// `post` is thread-safe; `run` is called on the receiving thread.
class Mailbox {
 public:
  void post(std::function<void()> call) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
    wake();
  }

  /// Ends `run` after the functions posted so far.
  void close() {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    wake();
  }

  /// Calls the posted functions in their order; resolves after `close`.
  kj::Promise<void> run() {
    return wait().then([this]() -> kj::Promise<void> {
      std::vector<std::function<void()>> calls;
      bool is_last = false;
      {
        const std::lock_guard lock(mutex_);
        calls.swap(calls_);
        is_last = is_closed_;
      }
      for (const auto& call : calls) call();
      if (is_last) return kj::READY_NOW;
      return run();
    });
  }

 private:
  kj::Promise<void> wait() {
    const std::lock_guard lock(mutex_);
    if (is_closed_ || !calls_.empty()) return kj::READY_NOW;
    auto pair = kj::newPromiseAndCrossThreadFulfiller<void>();
    waiter_ = kj::mv(pair.fulfiller);
    return kj::mv(pair.promise);
  }

  void wake() {
    if (waiter_.get() == nullptr) return;
    waiter_->fulfill();
    waiter_ = nullptr;
  }

  std::mutex mutex_;
  std::vector<std::function<void()>> calls_;
  bool is_closed_ = false;
  kj::Own<kj::CrossThreadPromiseFulfiller<void>> waiter_;  // null: no wait is open
};

}  // namespace lockstep::serve
