// Groups of ranks on the backend for GPUs, over the stand-in of its driver.
#pragma once

#include <cstdlib>
#include <filesystem>

#include "tests/cuda_stand_in/driver_under_test.h"
#include "tests/model/model_group.h"

namespace lockstep::model {

/// LOCKSTEP_GOLDENS, where the sources are not at hand.
inline std::filesystem::path goldens_folder() {
  const char* named = std::getenv("LOCKSTEP_GOLDENS");
  return named == nullptr ? LOCKSTEP_GOLDENS_DIR : named;
}

/// `options` for ranks that share the stand-in's GPU.
inline GroupOptions on_stand_in(GroupOptions options) {
  options.backend = "cuda";
  options.backend_options = {{"cuda-driver", cu::driver_under_test(LOCKSTEP_STAND_IN_CUDA)},
                             {"nccl", LOCKSTEP_STAND_IN_NCCL}};
  return options;
}

}  // namespace lockstep::model
