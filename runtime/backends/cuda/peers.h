// Memory that the ranks of a host see: each rank's own part, and where it sees the others'.
//
//   a rank of the same GPU and process   its address
//   another GPU of this process          its address, after access to that GPU was enabled
//   another process                      an address of this process, by CUDA IPC
//
// A part lives as long as a rank of its process may use it: after an error one rank ends while a kernel of another
// still looks for it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/rank_device.h"
#include "runtime/cuda/peer_access.h"
#include "runtime/device/communicator.h"

namespace lockstep::cuda {

class PeerMemory {
 public:
  /// Makes this rank's part, zeroed, and opens the others'. Every rank fails where one cannot see another's memory
  /// (`kUnsupported`, `kUnavailable`) or has a GPU of another kind (`kFailedPrecondition`), whichever their hosts.
  /// @collective @blocking
  static Result<PeerMemory> map(const RankDevice& device, device::Communicator& communicator, int64_t half_bytes);

  const std::array<uint64_t, kMostRanks>& areas() const { return areas_; }
  const std::array<int64_t, kMostRanks>& halves() const { return halves_; }
  int64_t bytes() const { return bytes_; }
  /// Blocks that may wait for each other, as the rank with the least of a GPU has them.
  int blocks() const { return blocks_; }
  /// Whether another rank has this rank's GPU.
  bool share_device() const { return share_device_; }

 private:
  struct Announcement;
  struct Part;
  Result<void> open(const RankDevice& device, int rank, const Announcement& own, std::span<const Announcement> all);

  std::vector<std::shared_ptr<Part>> parts_;  // of the ranks of this process, with this rank's own
  std::vector<cu::SharedMemory> opened_;      // of other processes
  int64_t bytes_ = 0;
  std::array<uint64_t, kMostRanks> areas_{};  // of ranks of this host
  std::array<int64_t, kMostRanks> halves_{};
  int blocks_ = 1;
  bool share_device_ = false;
};

}  // namespace lockstep::cuda
