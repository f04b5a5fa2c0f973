// The list of backends; no other file names them.
#include "engine/drivers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <vector>

#include "runtime/backends/cpu/cpu.h"
#include "runtime/backends/cuda/cuda.h"
#include "runtime/backends/neuron/neuron.h"
#include "runtime/backends/reference/reference.h"

namespace lockstep::engine {

std::span<const device::BackendDriver* const> drivers() {
  static const std::array kDrivers = {&cpu::driver(), &reference::driver(), &neuron::driver(), &cuda::driver()};
  return kDrivers;
}

Result<const device::BackendDriver*> find_driver(std::string_view name) {
  std::vector<std::string_view> names;
  for (const device::BackendDriver* driver : drivers()) {
    names.push_back(driver->name());
    if (driver->name() != name) continue;
    LOCKSTEP_TRY_VOID(driver->available());
    return driver;
  }
  return Error{ErrorKind::kInvalidArgument, fmt::format("[engine] --backend: found {}, expected one of {}; choose one",
                                                        name, fmt::join(names, ", "))};
}

std::string settings_of(const device::BackendDriver& driver, const device::OptionValues& values) {
  std::string settings = driver.statement(values);  // a line each
  if (settings.ends_with('\n')) settings.pop_back();
  std::ranges::replace(settings, '\n', ' ');
  return settings;
}

}  // namespace lockstep::engine
