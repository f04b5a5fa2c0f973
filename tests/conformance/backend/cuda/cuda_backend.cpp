// The suite's list of backends for GPUs: the backend over the stand-in of the CUDA driver.
#include "runtime/backends/cuda/backend.h"
#include "tests/conformance/backend/backends.h"
#include "tests/cuda_stand_in/driver_under_test.h"

namespace lockstep::conformance {

const std::vector<BackendUnderTest>& backends_under_test() {
  static const std::vector<BackendUnderTest> kBackends = {
      {.name = "Cuda",
       .make = [](int) { return cuda::make_backend({.driver = cu::driver_under_test(LOCKSTEP_STAND_IN_CUDA)}); },
       .rounds_weights_of_attention = {DType::kBFloat16, DType::kFloat16}}};
  return kBackends;
}

}  // namespace lockstep::conformance
