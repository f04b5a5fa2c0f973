// References inside a JSON schema.
#pragma once

#include <string>

namespace lockstep::serve {

/// The definition that `reference` ("#/$defs/NAME", "#/definitions/NAME") names in `root`; null if it has no such one.
template <typename Json>
const Json* definition_of(const Json& reference, const Json& root) {
  if (!reference.is_string()) return nullptr;
  const auto place = reference.template get<std::string>();
  for (const char* key : {"$defs", "definitions"}) {
    const std::string prefix = std::string("#/") + key + "/";
    if (!place.starts_with(prefix) || !root.contains(key) || !root[key].is_object()) continue;
    const auto definition = root[key].find(place.substr(prefix.size()));
    if (definition != root[key].end()) return &*definition;
  }
  return nullptr;
}

}  // namespace lockstep::serve
