// A list with fixed capacity: adding never allocates, and dropped entries are counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::trace {

/// Used by one thread.
template <typename T>
class FixedLog {
 public:
  /// Writes to all of its memory, so that adding causes no page fault.
  explicit FixedLog(size_t capacity) : entries_(capacity) {}

  void add(const T& entry) {
    if (size_ < entries_.size()) {
      entries_[size_++] = entry;
    } else {
      ++dropped_;
    }
  }
  void clear() {
    size_ = 0;
    dropped_ = 0;
  }

  bool is_full() const { return size_ == entries_.size(); }
  std::span<const T> entries() const { return {entries_.data(), size_}; }
  int64_t dropped() const { return dropped_; }

 private:
  std::vector<T> entries_;
  size_t size_ = 0;
  int64_t dropped_ = 0;
};

}  // namespace lockstep::trace
