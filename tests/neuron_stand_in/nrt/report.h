// What the stand-in says on stderr when a call fails: the C interface itself carries only a status.
#pragma once

#include <string>

#include "runtime/backends/neuron/nrt/abi.h"

namespace lockstep::stand_in {

/// Prints "[stand-in libnrt] message (status N)" and returns `status`.
nrt::NRT_STATUS refuse(nrt::NRT_STATUS status, const std::string& message);

}  // namespace lockstep::stand_in
