#include "runtime/backends/cuda/cuda.h"
#include "runtime/backends/cuda/option_rows.h"
#include "runtime/device/unavailable_driver.h"

namespace lockstep::cuda {

const device::BackendDriver& driver() {
  static const device::UnavailableDriver kDriver("cuda", option_rows(), kSigns,
                                                 device::missing_backend("cuda", LOCKSTEP_MISSING_OPTION));
  return kDriver;
}

}  // namespace lockstep::cuda
