// Programs of this build that the running one starts.
#pragma once

#include <filesystem>
#include <string_view>

namespace lockstep::launcher {

/// The program `name` in the folder of the running one; whether it exists is not checked. Empty if that folder is not
/// known.
std::filesystem::path sibling_program(std::string_view name);

}  // namespace lockstep::launcher
