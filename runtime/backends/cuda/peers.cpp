#include "runtime/backends/cuda/peers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "runtime/backends/cuda/step_plan.h"

namespace lockstep::cuda {
namespace {

/// What a rank tells the others.
struct Announcement {
  int64_t process = 0;
  int64_t device = 0;
  uint64_t address = 0;
  int64_t half_bytes = 0;
};

}  // namespace

Result<PeerMemory> PeerMemory::map(const RankDevice& device, device::Communicator& communicator, int64_t half_bytes) {
  PeerMemory peers;
  const int ranks = communicator.size();
  const int64_t half = (half_bytes + 255) / 256 * 256;
  const int64_t bytes = flag_bytes(ranks) + 2 * half;
  LOCKSTEP_TRY(peers.memory_, cu::DeviceMemory::create(*device.context, Bytes(bytes), "sums over ranks"));
  LOCKSTEP_TRY_VOID(device.stream->fill_zero(peers.memory_.address(), bytes));
  LOCKSTEP_TRY_VOID(device.stream->wait(device.limit));
  const Announcement own{getpid(), device.context->device().ordinal, peers.memory_.address().value, half};
  std::vector<Announcement> all(static_cast<size_t>(ranks));
  const std::vector<int64_t> counts(static_cast<size_t>(ranks), sizeof own);
  LOCKSTEP_TRY_VOID(communicator.all_gather(std::as_bytes(std::span(&own, 1)), counts,
                                            std::as_writable_bytes(std::span(all)), device::Stream::host()));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].process != own.process || all[rank].device != own.device) {
      return Error{
          ErrorKind::kUnsupported,
          fmt::format("[runtime/backends/cuda] rank {}: cannot see the memory of rank {}: found GPU {} of "
                      "process {}, expected GPU {} of process {}; run the ranks as threads of one process that "
                      "share a GPU",
                      communicator.rank(), rank, all[rank].device, all[rank].process, own.device, own.process)};
    }
    peers.areas_[rank] = all[rank].address;
    peers.halves_[rank] = all[rank].half_bytes;
  }
  return peers;
}

}  // namespace lockstep::cuda
