#include "launcher/process/replica_cores.h"

#include <fmt/format.h>

#include "runtime/topology/discovery.h"
#include "transport/bootstrap.h"

namespace lockstep::launcher {

Result<std::vector<std::vector<int>>> cores_of_replicas(const WantedReplicas& wanted) {
  if (wanted.takes_devices) {
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("[launcher] cannot share devices out: found --replicas {} with --backend {}, expected one "
                    "replica or ranks that a launcher numbers; write mpirun -n {} lockstep {} --tp {}",
                    wanted.replicas, wanted.backend, wanted.replicas * wanted.ranks, wanted.command, wanted.ranks)};
  }
  LOCKSTEP_TRY(const topology::Machine machine, topology::read_machine(topology::Devices::kNone));
  return machine.divide(transport::own_hardware_threads(), static_cast<size_t>(wanted.replicas));
}

}  // namespace lockstep::launcher
