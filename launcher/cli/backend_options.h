// The options of backends as flags of commands: made of the rows of their drivers.
#pragma once

#include <string>
#include <vector>

#include "runtime/device/backend_driver.h"

namespace CLI {
class App;
}

namespace lockstep::launcher {

/// "; this build lacks cuda", or "" where it lacks none.
std::string missing_backends();

/// The names of backends that have options of `use` or a later one: for kCompiling, those that compile ahead of time.
std::vector<std::string> backends_with(device::OptionUse use);

/// Adds the options of `use` and later ones of every backend, below their own headings. What is given goes into
/// `values`, which outlives the parse.
void add_backend_options(CLI::App& app, device::OptionUse use, device::OptionValues& values);

/// Of `values` those that are options of `backend`.
device::OptionValues own_options(std::string_view backend, const device::OptionValues& values);

}  // namespace lockstep::launcher
