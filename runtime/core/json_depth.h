// The depth of JSON texts of others: the JSON library copies, compares and prints values by recursion.
#pragma once

#include <string_view>

namespace lockstep {

/// The most that a text of ours nests, several times over.
inline constexpr int kMostJsonDepth = 64;

/// Whether `text` nests lists and objects deeper than `kMostJsonDepth`; it need not be JSON. To be asked before it is
/// parsed.
inline bool nests_too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char byte = text[i];
    if (byte == '"') in_string = !in_string;
    if (in_string && byte == '\\') ++i;
    if (in_string) continue;
    if ((byte == '[' || byte == '{') && ++depth > kMostJsonDepth) return true;
    if (byte == ']' || byte == '}') --depth;
  }
  return false;
}

/// `text` as a value of nlohmann's `Json`; discarded where it is not JSON, or nests too deep.
template <typename Json>
Json parse_shallow(std::string_view text) {
  if (nests_too_deep(text)) return Json::value_t::discarded;
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace lockstep
