// Checks that ranks of a host share memory: space in /dev/shm, then writes and reads.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "engine/group/agreement.h"
#include "launcher/measure/doctor/judgements.h"
#include "launcher/measure/doctor/stages.h"
#include "runtime/core/reserve_file.h"
#include "transport/region/region.h"

namespace lockstep::launcher {
namespace {

using device::RankPlace;
using transport::region::Memory;

constexpr size_t kPage = transport::region::kPageBytes;

Error cannot(const RankPlace& place, std::string_view what) {
  return {ErrorKind::kFailedPrecondition,
          fmt::format("[doctor] rank {} on {} cannot {} shared memory: found '{}', expected a /dev/shm that all ranks "
                      "of the host may use; check its mount and permissions, and that ranks are in one container; "
                      "--communicator mpi works without it",
                      place.rank, place.host, what, std::strerror(errno)),
          place.rank};
}

/// A name in /dev/shm that the destructor removes; empty: none.
struct Name {
  std::string text;
  ~Name() {
    if (!text.empty()) shm_unlink(text.c_str());
  }
};

/// Creates a file with one page for each rank of the host.
Result<void> create(const RankPlace& place, Name& name) {
  std::random_device random;
  std::string wanted = fmt::format("/lockstep-doctor-{}-{:08x}", getpid(), random());
  const int file = shm_open(wanted.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  if (file < 0) return cannot(place, "create");
  name.text = std::move(wanted);
  const int error = reserve_file(file, 0, static_cast<off_t>(kPage) * place.local_size);
  close(file);
  errno = error;
  return error == 0 ? Result<void>(ok()) : cannot(place, "fill");
}

Result<Memory> map(const RankPlace& place, const std::string& name) {
  const int file = shm_open(name.c_str(), O_RDWR, 0);
  if (file < 0) return cannot(place, "open");
  auto memory = Memory::of_file(file, kPage * static_cast<size_t>(place.local_size));
  close(file);
  return memory;
}

/// Checks that the page of each local rank `r` contains r + 1 in every byte.
Result<void> look(const RankPlace& place, const Memory& memory) {
  for (int local = 0; local < place.local_size; ++local) {
    const std::byte* const page = memory.data() + kPage * static_cast<size_t>(local);
    const auto expected = static_cast<std::byte>(local + 1);
    if (std::all_of(page, page + kPage, [&](std::byte byte) { return byte == expected; })) continue;
    errno = EIO;
    return cannot(place, fmt::format("see what local rank {} wrote into", local));
  }
  return ok();
}

Result<void> share_a_page(DoctorRank& rank) {
  transport::Bootstrap& bootstrap = rank.member.bootstrap();
  const std::vector<RankPlace>& places = rank.plan.places;
  const RankPlace& own = places[static_cast<size_t>(rank.rank())];
  Name name;
  LOCKSTEP_TRY_VOID(group::all_succeeded(
      bootstrap, own.local_rank == 0 && own.local_size > 1 ? create(own, name) : Result<void>(ok())));
  LOCKSTEP_TRY(const auto names, bootstrap.exchange(name.text));
  const auto head = std::ranges::find_if(
      places, [&](const RankPlace& place) { return place.node == own.node && place.local_rank == 0; });
  Result<Memory> memory =
      own.local_size > 1 ? map(own, names[static_cast<size_t>(head->rank)]) : Memory::anonymous(kPage);
  LOCKSTEP_TRY_VOID(
      group::all_succeeded(bootstrap, memory.has_value() ? Result<void>(ok()) : Result<void>(memory.error())));
  std::byte* const page = memory.value().data() + kPage * static_cast<size_t>(own.local_rank);
  std::fill(page, page + kPage, static_cast<std::byte>(own.local_rank + 1));
  LOCKSTEP_TRY_VOID(bootstrap.barrier());
  return group::all_succeeded(bootstrap, look(own, memory.value()));
}

}  // namespace

Result<Check> run_shared_memory(DoctorRank& rank) {
  if (rank.has_threads()) return skipped_check("the ranks are threads of one process");
  const bool is_shared = std::ranges::any_of(rank.plan.places, [](const auto& place) { return place.local_size > 1; });
  if (!is_shared) return skipped_check("no host has two ranks");
  Check check = judge_shm_space(rank.plan.placement, rank.facts);
  if (check.status != CheckStatus::kOk) return check;
  LOCKSTEP_TRY_VOID(share_a_page(rank));
  check.found += "; the ranks of a host see each other's pages";
  return check;
}

}  // namespace lockstep::launcher
