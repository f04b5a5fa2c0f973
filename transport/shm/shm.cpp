#include "transport/shm/shm.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <random>

#include "runtime/core/descriptor.h"
#include "runtime/core/ids.h"
#include "runtime/core/reserve_file.h"
#include "transport/region/region_communicator.h"

namespace lockstep::transport::shm {
namespace {

using region::Layout;
using region::Memory;
using region::View;

constexpr std::string_view kComponent = "[transport/shm]";

Error cannot(std::string_view what, int rank, int error) {
  const ErrorKind kind = error == ENOSPC || error == ENOMEM ? ErrorKind::kResourceExhausted : ErrorKind::kUnavailable;
  return {kind,
          fmt::format("{} rank {}: cannot {} shared memory: found '{}', expected a usable /dev/shm; make it larger, or "
                      "choose --communicator mpi",
                      kComponent, rank, what, std::strerror(error)),
          rank};
}

constexpr std::string_view kFolder = "/dev/shm";

/// Removes a name at the end, unless another rank has removed it; "": no name.
class Name {
 public:
  explicit Name(std::string path) : path_(std::move(path)) {}
  Name(const Name&) = delete;
  Name& operator=(const Name&) = delete;
  ~Name() {
    if (!path_.empty()) unlink(path_.c_str());
  }

 private:
  std::string path_;
};

/// The first rank's file, as the other ranks open it.
struct Offer {
  std::string path;
  uint64_t mark = 0;  // also in the file, because a path may name another file on another rank
};

/// A file that the first rank keeps open until all have it.
struct Offered {
  Descriptor file;
  Offer offer;
};

/// The mark is behind the first rank's flags, in the same page.
constexpr off_t kMarkAt = region::kPageBytes - sizeof(uint64_t);
static_assert(sizeof(region::RankLine) <= kMarkAt);

Result<void> check_one_host(const std::vector<RankPlace>& places) {
  for (const RankPlace& place : places) {
    if (place.local_size == static_cast<int>(places.size())) continue;
    return Error{
        ErrorKind::kUnavailable,
        fmt::format("{} ranks cannot share memory: found rank {} on {} with {} of {} ranks, expected all on one "
                    "host; choose --communicator auto, two-level or mpi",
                    kComponent, place.rank, place.host, place.local_size, places.size())};
  }
  return ok();
}

Result<void> check_space(int rank, size_t needed) {
  struct statvfs space {};
  if (statvfs(kFolder.data(), &space) != 0) return cannot("look at", rank, errno);
  const uint64_t free = static_cast<uint64_t>(space.f_bavail) * space.f_frsize;
  if (free >= needed) return ok();
  return Error{ErrorKind::kResourceExhausted,
               fmt::format("{} rank {}: {} is too small: found {} free, expected {}; make it larger (in a container: "
                           "--shm-size), or choose --communicator mpi",
                           kComponent, rank, kFolder, to_string(Bytes(static_cast<int64_t>(free))),
                           to_string(Bytes(static_cast<int64_t>(needed)))),
               rank};
}

uint64_t random_number() {
  std::random_device random;
  return static_cast<uint64_t>(random()) << 32 | random();
}

/// A new file, `path` if it has a name.
int open_file(FileKind kind, const std::string& path) {
  switch (kind) {
    case FileKind::kNameless: return open(kFolder.data(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    case FileKind::kNamed: return open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    case FileKind::kMemory: break;
  }
  return memfd_create("lockstep", MFD_CLOEXEC);
}

/// The first rank's part of the agreement: a file of the right size. One without a name disappears with the process;
/// the others open it through this process's descriptor.
Result<Offered> create_file(const Layout& layout, FileKind kind, int rank) {
  if (kind != FileKind::kMemory) LOCKSTEP_TRY_VOID(check_space(rank, layout.bytes()));
  const uint64_t mark = random_number();
  std::string path = fmt::format("{}/lockstep-{}-{:016x}", kFolder, getpid(), random_number());
  Descriptor file(open_file(kind, path));
  if (file.get() < 0) return cannot("create", rank, errno);
  if (kind != FileKind::kNamed) path = fmt::format("/proc/{}/fd/{}", getpid(), file.get());
  const bool sized = ftruncate(file.get(), static_cast<off_t>(layout.bytes())) == 0 &&
                     pwrite(file.get(), &mark, sizeof(mark), kMarkAt) == sizeof(mark);
  if (!sized) {
    const int error = errno;
    if (kind == FileKind::kNamed) unlink(path.c_str());
    return cannot("size", rank, error);
  }
  return Offered{std::move(file), {std::move(path), mark}};
}

/// Maps the file, after reserving the rank's own part: too little memory is an error here, not a crash at first use.
Result<Memory> attach(const Offer& offer, const Layout& layout, int name, int rank) {
  const Descriptor file(open(offer.path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.get() < 0) return cannot("open", name, errno);
  uint64_t mark = 0;
  if (pread(file.get(), &mark, sizeof(mark), kMarkAt) != sizeof(mark) || mark != offer.mark) {
    return cannot("open", name, ENOENT);  // another file of that path
  }
  const auto begin = static_cast<off_t>(layout.part_bytes() * static_cast<size_t>(rank));
  const int error = reserve_file(file.get(), begin, static_cast<off_t>(layout.part_bytes()));
  if (error != 0) return cannot("reserve", name, error);
  return Memory::of_file(file.get(), layout.bytes());
}

/// A rank's outcome as text: "ok TEXT", or the kind and the message of its error.
std::string to_text(const Result<std::string>& outcome) {
  if (outcome.has_value()) return "ok " + outcome.value();
  return fmt::format("{} {}", static_cast<int>(outcome.error().kind), outcome.error().message);
}

Result<std::string> from_text(std::string_view text, int rank) {
  const size_t space = std::min(text.find(' '), text.size());
  const std::string_view head = text.substr(0, space);
  std::string rest(text.substr(std::min(space + 1, text.size())));
  if (head == "ok") return rest;
  const bool known = head == std::to_string(static_cast<int>(ErrorKind::kResourceExhausted));
  return Error{known ? ErrorKind::kResourceExhausted : ErrorKind::kUnavailable, std::move(rest), rank};
}

/// Exchanges the outcomes of all ranks; all fail with the first error.
Result<std::string> exchange_outcome(Bootstrap& bootstrap, const Result<std::string>& mine) {
  LOCKSTEP_TRY(const std::vector<std::string> texts, bootstrap.exchange(to_text(mine)));
  std::string first;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    LOCKSTEP_TRY(std::string text, from_text(texts[rank], static_cast<int>(rank)));
    if (rank == 0) first = std::move(text);
  }
  return first;
}

std::string to_text(const Offer& offer) { return fmt::format("{} {}", offer.mark, offer.path); }

Result<Offer> offer_from(std::string_view text, int rank) {
  Offer offer;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), offer.mark);
  const auto read = static_cast<size_t>(end - text.data());
  if (status != std::errc() || read == text.size()) {
    return Error{ErrorKind::kFailedPrecondition,
                 fmt::format("{} rank {}: cannot read where the shared memory is: found '{}', expected a number and a "
                             "path; start the same program on every rank",
                             kComponent, rank, text),
                 rank};
  }
  offer.path = text.substr(read + 1);
  return offer;
}

/// Tries one kind of file on all ranks: all succeed, or all fail with the same error.
Result<Memory> share(Bootstrap& bootstrap, const Layout& layout, FileKind kind, std::span<const int> names) {
  const int rank = bootstrap.rank();
  const int name = names[static_cast<size_t>(rank)];
  std::optional<Offered> own;
  Result<std::string> created = std::string();
  if (rank == 0) {
    Result<Offered> made = create_file(layout, kind, name);
    if (made.has_value()) {
      created = to_text(made.value().offer);
      own.emplace(std::move(made).value());
    } else {
      created = made.error();
    }
  }
  const Name own_name(own && kind == FileKind::kNamed ? own->offer.path : "");
  LOCKSTEP_TRY(const std::string agreed, exchange_outcome(bootstrap, created));
  LOCKSTEP_TRY(const Offer offer, offer_from(agreed, name));
  const Name name_of_all(kind == FileKind::kNamed ? offer.path : "");  // removed by the first rank that ends
  Result<Memory> memory = attach(offer, layout, name, rank);
  const Result<std::string> attached =
      memory.has_value() ? Result<std::string>(std::string()) : Result<std::string>(memory.error());
  LOCKSTEP_TRY_VOID(exchange_outcome(bootstrap, attached));
  return memory;
}

/// A nameless file; a named one if the ranks cannot open it; memory if /dev/shm cannot be used. The error is that of
/// the first kind.
Result<Memory> share_somehow(Bootstrap& bootstrap, const Layout& layout, FileKind kind, std::span<const int> names) {
  Result<Memory> first = share(bootstrap, layout, kind, names);
  if (first.has_value() || kind != FileKind::kNameless || first.error().kind != ErrorKind::kUnavailable) return first;
  for (const FileKind other : {FileKind::kNamed, FileKind::kMemory}) {
    Result<Memory> memory = share(bootstrap, layout, other, names);
    if (memory.has_value()) return memory;
  }
  return first;
}

}  // namespace

Result<std::unique_ptr<HostCommunicator>> make_communicator(Bootstrap& bootstrap, const WaitOptions& wait,
                                                            const Options& options) {
  LOCKSTEP_TRY(const std::vector<RankPlace> places, bootstrap.places());
  LOCKSTEP_TRY_VOID(check_one_host(places));
  std::vector<int> names;
  for (const RankPlace& place : places) names.push_back(place.rank);
  const Layout layout = Layout::of(bootstrap.size(), options.message_bytes);
  LOCKSTEP_TRY(Memory memory, share_somehow(bootstrap, layout, options.file, names));
  const bool past_cache = options.copies == Copies::kPastCache;
  const auto owner = std::make_shared<Memory>(std::move(memory));
  return std::make_unique<region::RegionCommunicator>(
      View(owner->data(), layout),
      region::Member{.name = past_cache ? "shm past cache" : "shm",
                     .rank = bootstrap.rank(),
                     .crowded = options.crowding == Crowding::kCrowded || is_crowded(places),
                     .past_cache = past_cache,
                     .names = std::move(names),
                     .owner = owner},
      wait);
}

}  // namespace lockstep::transport::shm
