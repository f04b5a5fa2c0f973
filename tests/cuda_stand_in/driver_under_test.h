// Which driver a test program takes: the stand-in, or the one that scripts/gpu names on a machine with a GPU.
#pragma once

#include <cstdlib>
#include <string>

namespace lockstep::cu {

/// LOCKSTEP_CUDA_DRIVER, or `stand_in`.
inline std::string driver_under_test(const char* stand_in) {
  const char* named = std::getenv("LOCKSTEP_CUDA_DRIVER");
  return named == nullptr ? stand_in : named;
}

}  // namespace lockstep::cu
