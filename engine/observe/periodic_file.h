// A file rewritten periodically by a separate thread.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/core/atomic_file.h"
#include "runtime/core/clock.h"

namespace lockstep::observe {

class PeriodicFile {
 public:
  /// Writes the result of `text` at once and then every `interval`. `text` is called on the thread. After a failed
  /// write the thread tries again at the next interval.
  PeriodicFile(std::filesystem::path path, Duration interval, std::function<std::string()> text)
      : path_(std::move(path)), interval_(interval), text_(std::move(text)), thread_([this] { run(); }) {}
  /// Stops writing.
  ~PeriodicFile() {
    {
      std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    over_.notify_all();
    thread_.join();
  }
  PeriodicFile(const PeriodicFile&) = delete;
  PeriodicFile& operator=(const PeriodicFile&) = delete;

 private:
  void run() {
    std::unique_lock lock(mutex_);
    do {
      lock.unlock();
      (void)write_text_file(path_, text_());
      lock.lock();
    } while (!over_.wait_for(lock, interval_, [this] { return is_over_; }));
  }

  const std::filesystem::path path_;
  const Duration interval_;
  const std::function<std::string()> text_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;  // uses the fields above
};

}  // namespace lockstep::observe
