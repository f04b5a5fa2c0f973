// Conversion of option values to settings of AWS's compiler and the Neuron runtime.
#pragma once

#include <optional>
#include <string>

#include "runtime/backends/neuron/neuron.h"
#include "runtime/device/backend_driver.h"

namespace lockstep::neuron {

/// Takes checked values of `option_rows`.
Target target_of(const device::OptionValues& values);

/// The compiler inherits this process's environment; `path` is the value of PATH there. Fails with `kInvalidArgument`
/// for malformed flags.
Result<CompilerOptions> compiler_options(const device::OptionValues& values, const std::optional<std::string>& path);

/// All settings of a rank's backend. Fails as `compiler_options` does.
Result<Options> backend_options(const device::RankSite& site, const device::OptionValues& values);

}  // namespace lockstep::neuron
