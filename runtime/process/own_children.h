// The children of this process that a ChildProcess waits for. Other children are orphans that it has adopted. Private
// to this folder.
#pragma once

#include <sys/types.h>

#include <mutex>
#include <set>

namespace lockstep::process {

/// Thread-safe. One in each process.
class OwnChildren {
 public:
  static OwnChildren& instance() {
    static OwnChildren children;
    return children;
  }

  /// Starts a child with `start`, which returns its id or −1. `has` knows the child before any other thread can see it.
  template <typename Start>
  pid_t add(Start start) {
    const std::lock_guard lock(mutex_);
    const pid_t pid = start();
    if (pid > 0) pids_.insert(pid);
    return pid;
  }
  /// It has been reaped.
  void remove(pid_t pid) {
    const std::lock_guard lock(mutex_);
    pids_.erase(pid);
  }
  bool has(pid_t pid) const {
    const std::lock_guard lock(mutex_);
    return pids_.contains(pid);
  }

 private:
  mutable std::mutex mutex_;
  std::set<pid_t> pids_;
};

}  // namespace lockstep::process
