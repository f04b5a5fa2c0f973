// The last operation of a communicator, written by its thread and read by any thread (a monitor, an exit record).
#pragma once

#include <atomic>

#include "runtime/device/communicator.h"

namespace lockstep::transport {

/// A sequence lock over one `OperationMark`: a write never waits, and a read never mixes two operations.
class OperationLog {
 public:
  /// Records the next operation. One thread.
  void enter(const char* operation, uint64_t bytes) {
    const uint64_t sequence = sequence_.load(std::memory_order_relaxed) + 1;
    version_.store(2 * sequence - 1, std::memory_order_relaxed);
    operation_.store(operation, std::memory_order_release);
    bytes_.store(bytes, std::memory_order_release);
    sequence_.store(sequence, std::memory_order_release);
    version_.store(2 * sequence, std::memory_order_release);
  }

  /// Any thread.
  device::OperationMark last() const {
    while (true) {
      const uint64_t before = version_.load(std::memory_order_acquire);
      const device::OperationMark mark{.operation = operation_.load(std::memory_order_acquire),
                                       .sequence = sequence_.load(std::memory_order_acquire),
                                       .bytes = bytes_.load(std::memory_order_acquire)};
      // A field of a later operation makes its odd version visible here.
      if (before % 2 == 0 && version_.load(std::memory_order_relaxed) == before) return mark;
    }
  }

 private:
  std::atomic<uint64_t> version_ = 0;  // odd while a mark is being written
  std::atomic<const char*> operation_ = "none";
  std::atomic<uint64_t> sequence_ = 0;
  std::atomic<uint64_t> bytes_ = 0;
};

}  // namespace lockstep::transport
