#include "runtime/checkpoint/config_difference.h"

#include <algorithm>
#include <map>

#include "runtime/checkpoint/json_document.h"

namespace lockstep::checkpoint {
namespace {

using nlohmann::json;

/// All scalar values, by the path of their keys.
std::map<std::string, std::string> values_of(std::string_view text) {
  std::map<std::string, std::string> values;
  const auto document = parse_json_object(text, "config.json");
  if (!document.has_value()) return values;
  const json flat = document.value().flatten();
  for (const auto& [path, value] : flat.items()) {
    std::string key = path.substr(path.empty() ? 0 : 1);  // without the leading slash
    std::ranges::replace(key, '/', '.');
    values.emplace(std::move(key), describe(value));
  }
  return values;
}

}  // namespace

std::vector<DifferingKey> differing_keys(std::string_view found, std::string_view expected) {
  constexpr const char* kNothing = "nothing";
  const auto ours = values_of(found), theirs = values_of(expected);
  std::vector<DifferingKey> keys;
  for (const auto& [key, value] : ours) {
    const auto other = theirs.find(key);
    if (other == theirs.end()) keys.push_back({key, value, kNothing});
    if (other != theirs.end() && other->second != value) keys.push_back({key, value, other->second});
  }
  for (const auto& [key, value] : theirs) {
    if (!ours.contains(key)) keys.push_back({key, kNothing, value});
  }
  std::ranges::sort(keys, {}, &DifferingKey::key);
  return keys;
}

}  // namespace lockstep::checkpoint
