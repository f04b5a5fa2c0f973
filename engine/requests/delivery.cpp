#include "engine/requests/delivery.h"

#include <utility>

namespace lockstep::requests {

Delivery::~Delivery() {
  {
    std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Delivery::post(std::function<void()> call) {
  {
    std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  changed_.notify_all();
}

void Delivery::wait_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return calls_.empty() && !is_calling_; });
}

void Delivery::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_ending_ || !calls_.empty(); });
    if (calls_.empty()) return;
    std::function<void()> call = std::move(calls_.front());
    calls_.pop_front();
    is_calling_ = true;
    lock.unlock();
    call();
    call = nullptr;  // destroys the captured objects outside the lock
    lock.lock();
    is_calling_ = false;
    changed_.notify_all();
  }
}

}  // namespace lockstep::requests
