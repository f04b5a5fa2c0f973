// The conformance suite of `device::Communicator`: instantiate it with the implementations of a program.
#pragma once

#include <gtest/gtest.h>

#include "tests/conformance/communicator/stage.h"

namespace lockstep::conformance {

class CommunicatorConformance : public ::testing::TestWithParam<Cast> {};

/// "shm_4_ranks", "mpi_world".
inline std::string name_of(const ::testing::TestParamInfo<Cast>& info) {
  const std::string& name = info.param.implementation.name;
  return info.param.ranks == 0 ? name + "_world" : name + "_" + std::to_string(info.param.ranks) + "_ranks";
}

}  // namespace lockstep::conformance
