// The driver of a build without the backend or the compile cache.
#include "runtime/backends/neuron/neuron.h"
#include "runtime/backends/neuron/option_rows.h"
#include "runtime/device/unavailable_driver.h"

namespace lockstep::neuron {

const device::BackendDriver& driver() {
  static const device::UnavailableDriver kDriver("neuron", option_rows(), kSigns,
                                                 device::missing_backend("neuron", LOCKSTEP_MISSING_OPTION));
  return kDriver;
}

}  // namespace lockstep::neuron
