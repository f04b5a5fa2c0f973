#include "transport/shm/shm.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <random>

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
                      "choose another communicator",
                      kComponent, rank, what, std::strerror(error)),
          rank};
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  int get() const { return value_; }

 private:
  int value_;
};

/// A name in /dev/shm that is gone at the end, whoever removes it first.
class Name {
 public:
  explicit Name(std::string text) : text_(std::move(text)) {}
  Name(const Name&) = delete;
  Name& operator=(const Name&) = delete;
  ~Name() { shm_unlink(text_.c_str()); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Not used by anyone else, and hard to guess.
std::string fresh_name() {
  std::random_device random;
  return fmt::format("/lockstep-{}-{:08x}{:08x}", getpid(), random(), random());
}

Result<void> check_one_host(const std::vector<RankPlace>& places) {
  for (const RankPlace& place : places) {
    if (place.local_size == static_cast<int>(places.size())) continue;
    return Error{
        ErrorKind::kUnavailable,
        fmt::format("{} ranks cannot share memory: found rank {} on {} with {} of {} ranks, expected all on one "
                    "host; choose another communicator",
                    kComponent, place.rank, place.host, place.local_size, places.size())};
  }
  return ok();
}

Result<void> check_space(size_t needed) {
  struct statvfs space {};
  if (statvfs("/dev/shm", &space) != 0) return cannot("look at", 0, errno);
  const uint64_t free = static_cast<uint64_t>(space.f_bavail) * space.f_frsize;
  if (free >= needed) return ok();
  return Error{
      ErrorKind::kResourceExhausted,
      fmt::format("{} /dev/shm is too small: found {} bytes free, expected {}; make it larger (in a container: "
                  "--shm-size), or choose a smaller message size or another communicator",
                  kComponent, free, needed),
      0};
}

/// Rank 0's part of the agreement: a file of the right size under a fresh name.
Result<std::string> create_file(const Layout& layout) {
  LOCKSTEP_TRY_VOID(check_space(layout.bytes()));
  std::string name = fresh_name();
  const Descriptor file(shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600));
  if (file.get() < 0) return cannot("create", 0, errno);
  if (ftruncate(file.get(), static_cast<off_t>(layout.bytes())) != 0) {
    const int error = errno;
    shm_unlink(name.c_str());
    return cannot("size", 0, error);
  }
  return name;
}

/// Maps the file, after reserving the rank's own part: a full /dev/shm is an error here, not a crash at first use.
Result<Memory> attach(const std::string& name, const Layout& layout, int rank) {
  const Descriptor file(shm_open(name.c_str(), O_RDWR, 0));
  if (file.get() < 0) return cannot("open", rank, errno);
  const auto begin = static_cast<off_t>(layout.part_bytes() * static_cast<size_t>(rank));
  const int error = posix_fallocate(file.get(), begin, static_cast<off_t>(layout.part_bytes()));
  if (error != 0) return cannot("reserve", rank, error);
  return Memory::of_file(file.get(), layout.bytes());
}

/// What a rank says of its own success: "ok TEXT", or the kind and the message of its error.
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

/// Tells every rank how each of them fared; all fail with the first error.
Result<std::string> exchange_outcome(Bootstrap& bootstrap, const Result<std::string>& mine) {
  LOCKSTEP_TRY(const std::vector<std::string> texts, bootstrap.exchange(to_text(mine)));
  std::string first;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    LOCKSTEP_TRY(std::string text, from_text(texts[rank], static_cast<int>(rank)));
    if (rank == 0) first = std::move(text);
  }
  return first;
}

}  // namespace

Result<std::unique_ptr<device::Communicator>> make_communicator(Bootstrap& bootstrap, const WaitOptions& wait,
                                                                const Options& options) {
  LOCKSTEP_TRY(const std::vector<RankPlace> places, bootstrap.places());
  LOCKSTEP_TRY_VOID(check_one_host(places));
  const int rank = bootstrap.rank();
  const Layout layout = Layout::of(bootstrap.size(), options.message_bytes);

  const Result<std::string> created = rank == 0 ? create_file(layout) : Result<std::string>(std::string());
  std::optional<Name> name;  // removed below, or by the first rank that gives up on the way
  if (rank == 0 && created.has_value()) name.emplace(created.value());
  LOCKSTEP_TRY(const std::string agreed, exchange_outcome(bootstrap, created));
  if (rank != 0) name.emplace(agreed);

  Result<Memory> memory = attach(agreed, layout, rank);
  const Result<std::string> attached =
      memory.has_value() ? Result<std::string>(std::string()) : Result<std::string>(memory.error());
  LOCKSTEP_TRY_VOID(exchange_outcome(bootstrap, attached));
  name.reset();

  const bool past_cache = options.copies == Copies::kPastCache;
  const auto owner = std::make_shared<Memory>(std::move(memory).value());
  return std::make_unique<region::RegionCommunicator>(View(owner->data(), layout),
                                                      region::Member{.name = past_cache ? "shm past cache" : "shm",
                                                                     .rank = rank,
                                                                     .crowded = is_crowded(places),
                                                                     .past_cache = past_cache,
                                                                     .owner = owner},
                                                      wait);
}

}  // namespace lockstep::transport::shm
