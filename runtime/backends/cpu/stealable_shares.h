// Work stealing between workers. Each worker takes pieces from the front of its own share. When its share is empty, it
// takes pieces from the end of another's, so that no worker waits for one on a temporarily slower core:
//
//   worker 0   ████████ ████ ██ ◄ own pieces                  ░░ ◄ stolen
//   worker 1   ████████ ██████                     ░░ ◄ the rest of its share is taken from here
//
// Each piece is half of the remaining units, so there are few pieces and the last one is a single unit.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/backends/cpu/thread_team.h"

namespace lockstep::cpu {

/// For units numbered from 0, below 2³¹. Each worker opens its share, then takes pieces until nothing is left; it may
/// do so again only after all have finished, that is, after a barrier of the team. Not movable while in use.
class StealableShares {
 public:
  explicit StealableShares(int workers) : left_(static_cast<size_t>(workers)) {}

  int workers() const { return static_cast<int>(left_.size()); }

  void open(Part part, Share own) {
    left_[static_cast<size_t>(part.worker)].units.store(word_of(own), std::memory_order_relaxed);
  }

  /// The next piece for this worker; empty when nothing is left. Skips workers that have not opened their share yet:
  /// their units stay their own.
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

  /// Half of the remaining units of a worker's share, or all of them if no other worker could take the rest.
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
