// How workers divide items among them.
#pragma once

#include <cstdint>

namespace lockstep::device {

/// A worker's index and the number of workers.
struct Part {
  int worker = 0;
  int workers = 1;
};

/// The part's share of `count` items, a contiguous range; shares differ by at most one item.
struct Share {
  int64_t begin = 0;
  int64_t end = 0;
};
constexpr Share share_of(int64_t count, Part part) {
  return {count * part.worker / part.workers, count * (part.worker + 1) / part.workers};
}

}  // namespace lockstep::device
