// Parts of a fuzzed input.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

namespace lockstep::fuzz {

/// Those between `mark`s; nothing behind a last `mark`. They borrow `text`.
inline std::vector<std::string_view> parts_of(std::string_view text, char mark) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    parts.push_back(text.substr(0, text.find(mark)));
    text.remove_prefix(std::min(text.size(), parts.back().size() + 1));
  }
  return parts;
}

}  // namespace lockstep::fuzz
