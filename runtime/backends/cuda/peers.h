// Memory that all ranks of a host see: each rank's own part, and where it sees the others'.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/rank_device.h"
#include "runtime/device/communicator.h"

namespace lockstep::cuda {

class PeerMemory {
 public:
  /// Makes this rank's part, zeroed, and exchanges addresses. Fails with `kUnsupported` where a rank cannot see
  /// another's memory. @collective @blocking
  static Result<PeerMemory> map(const RankDevice& device, device::Communicator& communicator, int64_t half_bytes);

  const std::array<uint64_t, kMostRanks>& areas() const { return areas_; }
  const std::array<int64_t, kMostRanks>& halves() const { return halves_; }
  int64_t bytes() const { return memory_.bytes().value; }

 private:
  cu::DeviceMemory memory_;
  std::array<uint64_t, kMostRanks> areas_{};
  std::array<int64_t, kMostRanks> halves_{};
};

}  // namespace lockstep::cuda
