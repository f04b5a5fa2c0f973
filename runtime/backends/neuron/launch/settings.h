// What option values say about AWS's compiler and the Neuron runtime.
#pragma once

#include <optional>
#include <string>

#include "runtime/backends/neuron/neuron.h"
#include "runtime/device/backend_driver.h"

namespace lockstep::neuron {

/// Values of `option_rows` that were checked.
Target target_of(const device::OptionValues& values);

/// The compiler runs in this process's environment; `path` is what PATH says there. Fails with `kInvalidArgument` for
/// flags that make no sense.
Result<CompilerOptions> compiler_options(const device::OptionValues& values, const std::optional<std::string>& path);

/// All of a rank's backend. Fails as `compiler_options`.
Result<Options> backend_options(const device::RankSite& site, const device::OptionValues& values);

}  // namespace lockstep::neuron
