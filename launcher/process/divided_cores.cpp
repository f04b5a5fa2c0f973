#include "launcher/process/divided_cores.h"

#include "runtime/topology/discovery.h"
#include "transport/bootstrap.h"

namespace lockstep::launcher {

Result<std::vector<std::vector<int>>> divide_own_cores(size_t parts) {
  LOCKSTEP_TRY(const topology::Machine machine, topology::read_machine(topology::Devices::kNone));
  return machine.divide(transport::own_hardware_threads(), parts);
}

}  // namespace lockstep::launcher
