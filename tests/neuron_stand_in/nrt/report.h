// Messages on stderr for failed calls, because the C interface only returns a status.
#pragma once

#include <string>

#include "runtime/backends/neuron/nrt/abi.h"

namespace lockstep::stand_in {

/// Prints "[stand-in libnrt] message (status N)" and returns `status`.
nrt::NRT_STATUS refuse(nrt::NRT_STATUS status, const std::string& message);

}  // namespace lockstep::stand_in
