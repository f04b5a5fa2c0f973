// Shares of work that move between workers while they run. Each takes pieces from the front of its own share; when
// nothing is left there, it takes pieces from the end of another's, so that no one waits for a worker whose core is
// slower for a moment:
//
//   worker 0   ████████ ████ ██ ◄ own pieces                  ░░ ◄ stolen
//   worker 1   ████████ ██████                     ░░ ◄ what is left of its share is taken from here
//
// Each piece is half of what is left, so that there are few of them and the last is one unit.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/backends/cpu/thread_team.h"

namespace lockstep::cpu {

/// For units numbered from 0, below 2³¹. Each worker opens its share, then takes until nothing is left, and does so
/// again only once all are done: between two barriers of a team. Moved only while no one uses it.
class StealableShares {
 public:
  explicit StealableShares(int workers) : left_(static_cast<size_t>(workers)) {}

  int workers() const { return static_cast<int>(left_.size()); }

  void open(Part part, Share own) {
    left_[static_cast<size_t>(part.worker)].units.store(word_of(own), std::memory_order_relaxed);
  }

  /// The next piece for this worker; empty when all that it could take is taken. Who has not opened its share yet is
  /// passed over, for its units are its own then.
  Share take(Part part) {
    for (int i = 0; i < workers(); ++i) {
      const int owner = (part.worker + i) % workers();
      const Share piece = cut_off(owner, i == 0 ? Side::kFront : Side::kEnd);
      if (piece.begin < piece.end) return piece;
    }
    return {};
  }

 private:
  enum class Side { kFront, kEnd };
  struct alignas(64) Left {
    std::atomic<uint64_t> units = 0;  // begin, end
  };

  /// Half of what is left of a worker's share, or all of it where nobody could take the rest.
  Share cut_off(int owner, Side side) {
    std::atomic<uint64_t>& left = left_[static_cast<size_t>(owner)].units;
    uint64_t word = left.load(std::memory_order_relaxed);
    for (Share all = share_of_word(word); all.begin < all.end; all = share_of_word(word)) {
      const int64_t count = all.end - all.begin, size = workers() == 1 ? count : (count + 1) / 2;
      const int64_t cut = side == Side::kFront ? all.begin + size : all.end - size;
      Share piece{all.begin, cut}, rest{cut, all.end};
      if (side == Side::kEnd) std::swap(piece, rest);
      if (left.compare_exchange_weak(word, word_of(rest), std::memory_order_relaxed)) return piece;
    }
    return {};
  }

  static uint64_t word_of(Share share) {
    return static_cast<uint64_t>(share.begin) << 32 | static_cast<uint64_t>(share.end);
  }
  static Share share_of_word(uint64_t word) {
    return {static_cast<int64_t>(word >> 32), static_cast<int64_t>(word & 0xffffffffu)};
  }

  std::vector<Left> left_;  // by worker
};

}  // namespace lockstep::cpu
