// The backend for NVIDIA GPUs. It has not run on a GPU yet.
#pragma once

#include "runtime/device/backend_driver.h"

namespace lockstep::cuda {

/// The driver of this backend.
const device::BackendDriver& driver();

}  // namespace lockstep::cuda
