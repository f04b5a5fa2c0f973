// What a misspelt word of a command line was probably meant to be.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::launcher {

/// The one of `names` that is nearest to `word` by letters left out, added, changed or swapped with their neighbour:
/// at most two such slips, and fewer than half of the word. Empty: none is near. Pure.
std::optional<std::string> nearest_name(std::string_view word, std::span<const std::string> names);

}  // namespace lockstep::launcher
