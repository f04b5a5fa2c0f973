// The sliding cache that never branches: roll left by the rows that came, write them into the right-most places; place
// i then holds position `seen − size + i`. It moves every row in every step, so backends keep a ring instead; here it
// says which keys a ring has to show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace lockstep::conformance {

/// One slot's keys, each known by a tag that says which write it came from.
class AlwaysRollCache {
 public:
  /// Keeps `size` ≥ `window` keys: as many more as rows may be taken back.
  AlwaysRollCache(int64_t size, int64_t window) : tags_(static_cast<size_t>(size), -1), window_(window) {}

  /// Feeds rows with these tags; element i of the result is what row i sees: the old keys and the fed ones, where their
  /// position is real, not in the future and inside the window.
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
