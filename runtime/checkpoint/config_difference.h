// The differing keys of two config.json texts, for messages about ranks with different files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::checkpoint {

/// A key with its values in two files, shortened; "nothing" where a file lacks it.
struct DifferingKey {
  std::string key;  // with the path of nested keys: "rope_scaling.factor", "layer_types.3"
  std::string found;
  std::string expected;

  friend bool operator==(const DifferingKey&, const DifferingKey&) = default;
};

/// The keys with different values, in alphabetical order. A text that is not a JSON object has none.
std::vector<DifferingKey> differing_keys(std::string_view found, std::string_view expected);

}  // namespace lockstep::checkpoint
