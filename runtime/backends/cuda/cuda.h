// The backend for GPUs: a reserved name without kernels.
#pragma once

#include "runtime/device/backend_driver.h"

namespace lockstep::cuda {

/// The driver of this backend; not available in any build.
const device::BackendDriver& driver();

}  // namespace lockstep::cuda
