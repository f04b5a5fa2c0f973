// The environment variables of the Neuron runtime in use, and the stand-in's own.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/core/result.h"
#include "tests/neuron_stand_in/nrt/planted_faults.h"

namespace lockstep::stand_in {

struct Settings {
  // The Neuron runtime's.
  std::vector<uint32_t> visible_cores;     // NEURON_RT_VISIBLE_CORES: contiguous, ascending; all without it
  std::string root_host;                   // NEURON_RT_ROOT_COMM_ID: where rank 0 listens
  uint16_t root_port = 0;                  // 0: not given
  std::chrono::seconds execute_limit{30};  // NEURON_RT_EXEC_TIMEOUT
  uint32_t logical_cores = 0;              // NEURON_LOGICAL_NC_CONFIG; 0: any

  // The stand-in's.
  uint32_t total_cores = 32;                     // STAND_IN_NRT_CORES
  uint32_t family = 2;                           // STAND_IN_NRT_FAMILY (nrt_instance_family)
  size_t core_memory = size_t{16} << 30;         // STAND_IN_NRT_CORE_MEMORY, bytes
  std::array<uint64_t, 4> version{2, 32, 0, 0};  // STAND_IN_NRT_VERSION=2.32.0.0
  std::chrono::seconds load_limit{60};           // STAND_IN_NRT_LOAD_LIMIT_S: how long a load waits for its peers
  std::filesystem::path machine;                 // STAND_IN_NRT_MACHINE: folder of the cores' locks; none without it
  std::filesystem::path log;                     // STAND_IN_NRT_LOG: folder of call logs; none without it
  std::vector<PlantedFault> faults;              // STAND_IN_NRT_FAULTS
};

/// Fails with `kInvalidArgument` for a variable that cannot be read; the message names it.
Result<Settings> settings_from_environment();

}  // namespace lockstep::stand_in
