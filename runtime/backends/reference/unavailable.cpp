// The driver of a build without libtorch.
#include "runtime/backends/reference/reference.h"
#include "runtime/device/unavailable_driver.h"

namespace lockstep::reference {

const device::BackendDriver& driver() {
  static const device::UnavailableDriver kDriver("reference", {}, {},
                                                 device::missing_backend("reference", LOCKSTEP_MISSING_OPTION));
  return kDriver;
}

}  // namespace lockstep::reference
