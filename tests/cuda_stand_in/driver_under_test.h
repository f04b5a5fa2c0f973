// Which driver a test program takes: the stand-in, or the one that scripts/gpu names on a machine with a GPU.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "tests/cuda_stand_in/libcuda.h"

namespace lockstep::cu {

/// LOCKSTEP_CUDA_DRIVER, or `stand_in`.
inline std::string driver_under_test(const char* stand_in) {
  const char* named = std::getenv("LOCKSTEP_CUDA_DRIVER");
  return named == nullptr ? stand_in : named;
}

/// Counts of the driver under test; null for a real one, which does not count.
using CountsOfDriver = StandInCounts (*)();
inline CountsOfDriver counts_of_driver(const char* stand_in) {
  void* library = dlopen(driver_under_test(stand_in).c_str(), RTLD_NOW);
  return library == nullptr ? nullptr
                            : reinterpret_cast<CountsOfDriver>(dlsym(library, "lockstep_stand_in_cuda_counts"));
}

}  // namespace lockstep::cu
