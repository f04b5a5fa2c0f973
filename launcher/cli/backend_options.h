// Command-line flags made from the option rows of backend drivers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/device/backend_driver.h"

namespace CLI {
class App;
}

namespace lockstep::launcher {

/// The names of all backends, divided by whether this build has them.
struct BuiltBackends {
  std::vector<std::string_view> present, missing;
};
BuiltBackends built_backends();

/// The names of backends that have options of `use` or a later one: for kCompiling, those that compile ahead of time.
std::vector<std::string> backends_with(device::OptionUse use);

/// Adds the options of `use` and later ones of every backend under the backend's heading. The parse writes given values
/// into `values`, which outlives it.
void add_backend_options(CLI::App& app, device::OptionUse use, device::OptionValues& values);

/// The elements of `values` that are options of `backend`.
device::OptionValues own_options(std::string_view backend, const device::OptionValues& values);

/// Whether each rank of `backend` takes a device of its own.
bool takes_devices(std::string_view backend);

}  // namespace lockstep::launcher
