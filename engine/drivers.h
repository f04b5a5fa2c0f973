// The backends of the engine, by name.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runtime/core/result.h"
#include "runtime/device/backend_driver.h"

namespace lockstep::engine {

/// Every backend, also those that this build lacks. The first is the default.
std::span<const device::BackendDriver* const> drivers();

/// The backend called `name`. Fails with `kInvalidArgument`, listing the names, for an unknown name, and with the
/// driver's reason for a backend that this build lacks.
Result<const device::BackendDriver*> find_driver(std::string_view name);

/// `BackendDriver::statement` on one line: "--instruction-set avx512". Takes checked values.
std::string settings_of(const device::BackendDriver& driver, const device::OptionValues& values);

}  // namespace lockstep::engine
