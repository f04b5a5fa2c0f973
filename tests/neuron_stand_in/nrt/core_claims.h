// Cores belong to one process at a time: a locked file per core in a folder that stands for the machine. The system
// releases the locks of a process that dies.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "runtime/backends/neuron/nrt/abi.h"

namespace lockstep::stand_in {

class CoreClaims {
 public:
  CoreClaims() = default;
  CoreClaims(const CoreClaims&) = delete;
  CoreClaims& operator=(const CoreClaims&) = delete;
  ~CoreClaims() { release(); }

  /// Claims `cores` of `machine`; without a folder nothing is claimed. NRT_LOAD_NOT_ENOUGH_NC when another process has
  /// one of them.
  nrt::NRT_STATUS claim(const std::filesystem::path& machine, std::span<const uint32_t> cores);
  void release();

 private:
  std::vector<int> locks_;
};

}  // namespace lockstep::stand_in
