#include "runtime/backends/cuda/cuda.h"
#include "runtime/device/unavailable_driver.h"

namespace lockstep::cuda {

const device::BackendDriver& driver() {
  static const device::UnavailableDriver kDriver("cuda", {},
                                                 {.noun = "GPU", .files = "nvidia", .variable = "CUDA_VISIBLE_DEVICES"},
                                                 {ErrorKind::kUnavailable,
                                                  "[runtime/backends/cuda] --backend cuda: found a backend that cannot "
                                                  "place ranks on GPUs in this version, expected a later one; choose "
                                                  "another backend (lockstep generate --help lists them)"});
  return kDriver;
}

}  // namespace lockstep::cuda
