#include "transport/local/local.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/exchange.h"
#include "transport/region/region_communicator.h"

namespace lockstep::transport::local {
namespace {

constexpr size_t kMessageBytes = 16 * 1024;  // longer texts take several rounds

region::Layout layout_of(int ranks) { return region::Layout::of(ranks, kMessageBytes); }

size_t bootstraps_bytes(int ranks) { return layout_of(ranks).bytes() * kMostBootstraps; }

/// A word of each rank behind the bootstraps: whether it has joined.
using Seat = std::atomic<uint32_t>;

size_t file_bytes(int ranks) { return bootstraps_bytes(ranks) + sizeof(Seat) * static_cast<size_t>(ranks); }

/// The rounds of a rank that joined before are in the memory already: it would meet the others in them.
Result<void> take_seat(const region::Memory& memory, int rank, int size) {
  Seat* const seats = reinterpret_cast<Seat*>(memory.data() + bootstraps_bytes(size));
  if (seats[rank].exchange(1) == 0) return ok();
  return Error{ErrorKind::kFailedPrecondition,
               fmt::format("[transport/local] rank {}: cannot meet the other ranks again: found a group that this rank "
                           "had joined, expected none before; open one group in a program that starts its ranks itself",
                           rank),
               rank};
}

Error no_meeting(int descriptor, std::string_view found) {
  return {ErrorKind::kFailedPrecondition,
          fmt::format("[transport/local] cannot meet the other ranks: found {} at descriptor {} of LOCKSTEP_MEETING, "
                      "expected the memory of the program that starts the ranks; unset LOCKSTEP_RANK, which only that "
                      "program sets",
                      found, descriptor)};
}

}  // namespace

Result<MeetingFile> MeetingFile::create(int ranks) {
  Descriptor file(memfd_create("lockstep-meeting", MFD_CLOEXEC));
  if (file.is_open() && ftruncate(file.get(), static_cast<off_t>(file_bytes(ranks))) == 0) {
    return MeetingFile(std::move(file));
  }
  return Error{ErrorKind::kResourceExhausted,
               fmt::format("[transport/local] cannot make the memory in which {} ranks meet: found '{}', expected a "
                           "file in memory; raise ulimit -n, or start fewer ranks",
                           ranks, std::strerror(errno))};
}

Result<std::unique_ptr<World>> World::join(int descriptor, int rank, int size) {
  struct stat facts {};
  if (fstat(descriptor, &facts) != 0) return no_meeting(descriptor, std::strerror(errno));
  if (static_cast<size_t>(facts.st_size) != file_bytes(size)) {
    return no_meeting(descriptor, fmt::format("a file of {} bytes", facts.st_size));
  }
  LOCKSTEP_TRY(region::Memory memory, region::Memory::of_file(descriptor, file_bytes(size)));
  LOCKSTEP_TRY_VOID(take_seat(memory, rank, size));
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  return std::unique_ptr<World>(new World(std::make_shared<region::Memory>(std::move(memory)), rank, size));
}

Result<std::unique_ptr<Bootstrap>> World::make_bootstrap(const WaitOptions& wait) {
  const int index = made_++;
  if (index >= kMostBootstraps) {
    return Error{
        ErrorKind::kResourceExhausted,
        fmt::format("[transport/local] rank {}: cannot make another bootstrap: found {} of one group, expected "
                    "no more; make a new group",
                    rank_, kMostBootstraps),
        rank_};
  }
  const region::Layout layout = layout_of(size_);
  const region::View view(memory_->data() + layout.bytes() * static_cast<size_t>(index), layout);
  // It is not known yet which ranks share cores, so yield early.
  region::Member member{.name = "local", .rank = rank_, .crowded = true, .names = {}, .owner = memory_};
  return make_bootstrap_over(std::make_unique<region::RegionCommunicator>(view, std::move(member), wait), "processes");
}

}  // namespace lockstep::transport::local
