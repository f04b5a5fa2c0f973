// Suggestions for misspelt words of a command line.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::launcher {

/// The element of `names` nearest to `word`, counting omitted, added, changed and transposed letters as one edit each:
/// at most two edits, and fewer than half of the word. Empty: none is near. Pure.
std::optional<std::string> nearest_name(std::string_view word, std::span<const std::string> names);

}  // namespace lockstep::launcher
