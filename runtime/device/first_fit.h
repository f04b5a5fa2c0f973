// Placement of values with limited lifetimes in one space.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lockstep::device {

/// Ranges of a space of bytes that grows at its end: the first free one that fits is taken.
class FirstFit {
 public:
  /// The offset of `bytes` (a multiple of 64).
  int64_t take(int64_t bytes) {
    bytes = padded(bytes);
    for (auto stretch = free_.begin(); stretch != free_.end(); ++stretch) {
      if (stretch->bytes < bytes) continue;
      const int64_t offset = stretch->offset;
      stretch->offset += bytes;
      stretch->bytes -= bytes;
      if (stretch->bytes == 0) free_.erase(stretch);
      return offset;
    }
    end_ += bytes;
    return end_ - bytes;
  }

  /// Frees what `take(bytes)` gave.
  void give_back(int64_t offset, int64_t bytes) {
    bytes = padded(bytes);
    const auto after = std::find_if(free_.begin(), free_.end(), [&](const Stretch& s) { return s.offset > offset; });
    auto at = free_.insert(after, {offset, bytes});
    if (at + 1 != free_.end() && at->offset + at->bytes == (at + 1)->offset) {
      at->bytes += (at + 1)->bytes;
      free_.erase(at + 1);
    }
    if (at != free_.begin() && (at - 1)->offset + (at - 1)->bytes == at->offset) {
      (at - 1)->bytes += at->bytes;
      free_.erase(at);
    }
  }

  /// Bytes of the space so far.
  int64_t size() const { return end_; }

 private:
  static constexpr int64_t kAlignment = 64;
  static int64_t padded(int64_t bytes) {
    return (std::max<int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  }

  struct Stretch {
    int64_t offset, bytes;
  };
  std::vector<Stretch> free_;
  int64_t end_ = 0;
};

}  // namespace lockstep::device
