// The environment of this process; the engine reads it only here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::group {

/// The value of a variable; empty when it is not set.
std::optional<std::string> environment(std::string_view name);

}  // namespace lockstep::group
