#include "runtime/backends/cuda/peers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "runtime/backends/cuda/step_plan.h"

namespace lockstep::cuda {

/// A rank's memory, with what it needs in order to be freed.
struct PeerMemory::Part {
  std::shared_ptr<const void> context_owner;
  cu::DeviceMemory memory;
};

/// What a rank tells the others.
struct PeerMemory::Announcement {
  int64_t process = 0;
  int64_t ordinal = 0;
  int64_t kind = 0;  // compute capability
  int64_t blocks = 1;
  int64_t half_bytes = 0;
  uint64_t address = 0;
  uint64_t context = 0;
  int64_t is_shared = 0;  // whether `handle` is valid
  cu::CUipcMemHandle handle{};
};

namespace {

template <typename Value>
Result<std::vector<Value>> gather(device::Communicator& communicator, const Value& own) {
  std::vector<Value> all(static_cast<size_t>(communicator.size()));
  const std::vector<int64_t> counts(all.size(), sizeof own);
  LOCKSTEP_TRY_VOID(communicator.all_gather(std::as_bytes(std::span(&own, 1)), counts,
                                            std::as_writable_bytes(std::span(all)), device::Stream::host()));
  return all;
}

/// The parts of this process, by address.
class Parts {
 public:
  void add(uint64_t address, const std::shared_ptr<void>& part) {
    const std::lock_guard lock(mutex_);
    std::erase_if(parts_, [](const auto& item) { return item.second.expired(); });
    parts_[address] = part;
  }
  /// Null where it is gone: its rank has failed.
  std::shared_ptr<void> find(uint64_t address) {
    const std::lock_guard lock(mutex_);
    const auto found = parts_.find(address);
    return found == parts_.end() ? nullptr : found->second.lock();
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, std::weak_ptr<void>> parts_;
};

Parts& parts_of_process() {
  static Parts parts;
  return parts;
}

std::string kind_text(int64_t kind) { return fmt::format("{}.{}", kind / 10, kind % 10); }

}  // namespace

Result<void> PeerMemory::open(const RankDevice& device, int rank, const Announcement& own,
                              std::span<const Announcement> all) {
  for (size_t peer = 0; peer < all.size(); ++peer) {
    const Announcement& other = all[peer];
    if (other.kind != own.kind) {
      return Error{ErrorKind::kFailedPrecondition,
                   fmt::format("[runtime/backends/cuda] rank {}: unlike GPUs: found compute capability {} here and {} "
                               "on rank {}, expected one kind, whose sums have the same bits; use GPUs of one kind",
                               rank, kind_text(own.kind), kind_text(other.kind), peer)};
    }
    if (device.hosts->host_of[peer] != device.hosts->host_of[static_cast<size_t>(rank)]) continue;
    share_device_ |= static_cast<int>(peer) != rank && other.ordinal == own.ordinal;
    halves_[peer] = other.half_bytes;
    areas_[peer] = other.address;
    blocks_ = std::min(blocks_, static_cast<int>(other.blocks));
    if (other.process == own.process) {
      parts_.push_back(std::static_pointer_cast<Part>(parts_of_process().find(other.address)));
      if (other.ordinal == own.ordinal) continue;
      LOCKSTEP_TRY_VOID(cu::enable_peer_access(*device.context, reinterpret_cast<cu::CUcontext>(other.context)));
      continue;
    }
    if (other.is_shared == 0) {
      return Error{ErrorKind::kUnsupported,
                   fmt::format("[runtime/backends/cuda] rank {}: cannot see the memory of rank {}: found a GPU or "
                               "container without CUDA IPC there, expected memory that processes share; run the ranks "
                               "with --launch threads, or give the container --ipc=host",
                               rank, peer)};
    }
    LOCKSTEP_TRY(cu::SharedMemory memory, cu::SharedMemory::open(*device.context, other.handle));
    areas_[peer] = memory.address().value;
    opened_.push_back(std::move(memory));
  }
  return ok();
}

Result<PeerMemory> PeerMemory::map(const RankDevice& device, device::Communicator& communicator, int64_t half_bytes) {
  PeerMemory peers;
  const cu::DeviceFacts& facts = device.context->device();
  const int rank = communicator.rank();
  const int64_t half = (half_bytes + 255) / 256 * 256;
  const int64_t bytes = flag_bytes(communicator.size()) + 2 * half;
  const auto part = std::make_shared<Part>();
  part->context_owner = device.context_owner;
  LOCKSTEP_TRY(part->memory, cu::DeviceMemory::create(*device.context, Bytes(bytes), "sums over ranks"));
  const cu::DeviceAddress address = part->memory.address();
  parts_of_process().add(address.value, part);
  peers.bytes_ = bytes;
  LOCKSTEP_TRY_VOID(device.stream->fill_zero(address, bytes));
  LOCKSTEP_TRY_VOID(device.stream->wait(device.limit));
  Announcement own{.process = getpid(),
                   .ordinal = facts.ordinal,
                   .kind = 10 * facts.major + facts.minor,
                   .blocks = std::clamp(facts.multiprocessors / device.most_shared_ranks, 1, kMostBlocks),
                   .half_bytes = half,
                   .address = address.value,
                   .context = reinterpret_cast<uint64_t>(device.context->native())};
  if (Result<cu::CUipcMemHandle> handle = cu::share(part->memory); handle.has_value()) {
    own.is_shared = 1;
    own.handle = handle.value();
  }
  peers.blocks_ = static_cast<int>(own.blocks);
  LOCKSTEP_TRY(const std::vector<Announcement> all, gather(communicator, own));
  Result<void> opened = peers.open(device, rank, own, all);
  // One that cannot go on takes the others with it, before any of them waits for it.
  LOCKSTEP_TRY(const std::vector<int32_t> failed, gather<int32_t>(communicator, opened.has_value() ? 0 : 1));
  LOCKSTEP_TRY_VOID(std::move(opened));
  const auto first = std::ranges::find(failed, 1);
  if (first == failed.end()) return peers;
  const auto other = static_cast<int>(first - failed.begin());
  Error error{
      ErrorKind::kPeerLost,
      fmt::format("[runtime/backends/cuda] rank {}: rank {} cannot see the memory of the other ranks: found its "
                  "error, expected access to every GPU of the group; see what that rank says",
                  rank, other)};
  error.origin_rank = other;
  return error;
}

}  // namespace lockstep::cuda
