// In which keys two texts of a config.json differ: for messages about ranks that read different files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::checkpoint {

/// A key with its value in two files, shortened; "nothing" where a file does not have it.
struct DifferingKey {
  std::string key;  // "rope_scaling.factor", "layer_types.3" for those inside another
  std::string found;
  std::string expected;

  friend bool operator==(const DifferingKey&, const DifferingKey&) = default;
};

/// The keys whose values differ, in alphabetical order. A text that is not a JSON object has none.
std::vector<DifferingKey> differing_keys(std::string_view found, std::string_view expected);

}  // namespace lockstep::checkpoint
