// The suite's list of backends for GPUs of several hosts: the backend over the stand-ins of the CUDA driver and NCCL.
#include "tests/conformance/backend/backends.h"
#include "tests/conformance/backend/cuda/pretended_hosts.h"

namespace lockstep::conformance {
namespace {

BackendUnderTest on_hosts(const char* name, HostsOfRanks hosts) {
  return {.name = name, .make = [hosts = std::move(hosts)](int) -> Result<std::unique_ptr<device::Backend>> {
            return std::unique_ptr<device::Backend>(new OnPretendedHosts(
                {.driver = cu::driver_under_test(LOCKSTEP_STAND_IN_CUDA), .exchange_library = LOCKSTEP_STAND_IN_NCCL},
                hosts));
          }};
}

}  // namespace

const std::vector<BackendUnderTest>& backends_under_test() {
  static const std::vector<BackendUnderTest> kBackends = {on_hosts("CudaAlternatingHosts", alternating),
                                                          on_hosts("CudaUnevenHosts", uneven),
                                                          on_hosts("CudaHostsOfOne", one_each)};
  return kBackends;
}

}  // namespace lockstep::conformance
