#include "launcher/cli/suggestion.h"

#include <algorithm>
#include <vector>

namespace lockstep::launcher {
namespace {

/// Optimal string alignment distance (https://en.wikipedia.org/wiki/Damerau-Levenshtein_distance).
size_t slips_between(std::string_view one, std::string_view other) {
  std::vector<std::vector<size_t>> slips(one.size() + 1, std::vector<size_t>(other.size() + 1));
  for (size_t i = 0; i <= one.size(); ++i) slips[i][0] = i;
  for (size_t j = 0; j <= other.size(); ++j) slips[0][j] = j;
  for (size_t i = 1; i <= one.size(); ++i) {
    for (size_t j = 1; j <= other.size(); ++j) {
      const size_t changed = slips[i - 1][j - 1] + (one[i - 1] == other[j - 1] ? 0 : 1);
      slips[i][j] = std::min({slips[i - 1][j] + 1, slips[i][j - 1] + 1, changed});
      const bool is_swapped = i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1];
      if (is_swapped) slips[i][j] = std::min(slips[i][j], slips[i - 2][j - 2] + 1);
    }
  }
  return slips[one.size()][other.size()];
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view word, std::span<const std::string> names) {
  constexpr size_t kMostSlips = 2;
  std::optional<std::string> nearest;
  size_t fewest = std::min(kMostSlips + 1, (word.size() + 1) / 2);
  for (const std::string& name : names) {
    const size_t slips = slips_between(word, name);
    if (slips >= fewest) continue;
    fewest = slips;
    nearest = name;
  }
  return nearest;
}

}  // namespace lockstep::launcher
