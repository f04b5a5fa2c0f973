// The driver of the backend for GPUs. The backend itself is backend.h.
#pragma once

#include "runtime/device/backend_driver.h"

namespace lockstep::cuda {

/// Not available in any build yet: the backend has no placement of ranks.
const device::BackendDriver& driver();

}  // namespace lockstep::cuda
