// The backend for GPUs: its name, kept until it has kernels.
#pragma once

#include "runtime/device/backend_driver.h"

namespace lockstep::cuda {

/// How the program starts it; it is available in no build yet.
const device::BackendDriver& driver();

}  // namespace lockstep::cuda
