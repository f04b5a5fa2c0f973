#include "tests/conformance/backend/always_roll.h"

#include <algorithm>

namespace lockstep::conformance {

std::vector<std::set<int>> AlwaysRollCache::feed(const std::vector<int>& tags) {
  std::vector<int> all = tags_;  // old keys, then new ones
  all.insert(all.end(), tags.begin(), tags.end());
  std::vector<std::set<int>> visible(tags.size());
  for (size_t row = 0; row < tags.size(); ++row) {
    const int64_t query = seen_ + static_cast<int64_t>(row);
    for (size_t place = 0; place < all.size(); ++place) {
      const int64_t position = seen_ - size() + static_cast<int64_t>(place);
      if (position >= 0 && position <= query && position > query - window_) visible[row].insert(all[place]);
    }
  }
  tags_.assign(all.end() - size(), all.end());
  seen_ += static_cast<int64_t>(tags.size());
  return visible;
}

void AlwaysRollCache::take_back(int64_t rows) {
  std::rotate(tags_.rbegin(), tags_.rbegin() + rows, tags_.rend());
  std::fill_n(tags_.begin(), rows, -1);
  seen_ -= rows;
}

}  // namespace lockstep::conformance
