// A sliding cache without branches: it rolls left by the number of new rows and writes them at the right end. Place i
// then holds position `seen − size + i`. It moves every row in every step, so backends use a ring instead; here it
// defines the keys that a ring must show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace lockstep::conformance {

/// One slot's keys, each identified by a tag of its write.
class AlwaysRollCache {
 public:
  /// Keeps `size` ≥ `window` keys: as many more as rows may be taken back.
  AlwaysRollCache(int64_t size, int64_t window) : tags_(static_cast<size_t>(size), -1), window_(window) {}

  /// Feeds rows with these tags; element i of the result holds the keys visible to row i: the old keys and the fed
  /// ones, where their position is real, not in the future and inside the window.
  std::vector<std::set<int>> feed(const std::vector<int>& tags);

  /// The last `rows` rows were rejected.
  void take_back(int64_t rows);

  const std::vector<int>& tags() const { return tags_; }

 private:
  int64_t size() const { return static_cast<int64_t>(tags_.size()); }

  std::vector<int> tags_;
  int64_t window_;
  int64_t seen_ = 0;
};

}  // namespace lockstep::conformance
