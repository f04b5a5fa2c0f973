#include "tests/model/on_cuda.h"

#include <cstdlib>

#include "tests/cuda_stand_in/driver_under_test.h"

namespace lockstep::model {

std::filesystem::path goldens_folder() {
  const char* named = std::getenv("LOCKSTEP_GOLDENS");
  return named == nullptr ? LOCKSTEP_GOLDENS_DIR : named;
}

GroupOptions on_stand_in(GroupOptions options) {
  options.backend = "cuda";
  options.backend_options = {{"cuda-driver", cu::driver_under_test(LOCKSTEP_STAND_IN_CUDA)},
                             {"nccl", LOCKSTEP_STAND_IN_NCCL}};
  return options;
}

}  // namespace lockstep::model
