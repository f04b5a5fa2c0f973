#include "engine/group/watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "engine/group/agreement.h"
#include "engine/group/host.h"
#include "engine/group/state.h"
#include "runtime/core/digest.h"
#include "transport/ip_address.h"
#include "transport/waiting.h"

namespace lockstep::group {
namespace {

using transport::watch::Endpoint;
using transport::watch::PeerWatch;

constexpr auto kEarlyMeeting = std::chrono::seconds(5);    // before MPI_Init, which would wait anyway
constexpr auto kVerdict = std::chrono::milliseconds(300);  // for a report that is under way

/// The meeting point of the ranks of one host: the same name for every rank of the job, different for other jobs. The
/// host's users can read the name, from which neither the job nor the secret follows.
Endpoint early_endpoint(const std::string& job) {
  const std::string digest = sha256_hex("watch " + job);
  return {.local = fmt::format("lockstep-{}-{}", geteuid(), digest.substr(0, 32)),
          .host = {},
          .port = 0,
          .secret = sha256_hex("secret of the watch " + job)};
}

}  // namespace

bool GroupWatch::is_off() const { return group_.hooks().detection == PeerDetection::kOff; }

transport::watch::WatchOptions GroupWatch::options(int rank, int size) const {
  return {.rank = rank,
          .size = size,
          .host = host_name(),
          .silence = group_.options().silence,
          .activity =
              [this, rank] { return group_.hooks().activity ? group_.hooks().activity(rank) : group_.phases().name(); },
          .on_refused = [this](const std::string& line) { group_.warn(/*rank=*/0, line); },
          .on_end = [this](const Error& error) { group_.end_by_peer(error); }};
}

/// The watch before it ends its threads unlocked: they may be waiting for the lock.
void GroupWatch::set_watch(Watch watch) {
  std::lock_guard lock(mutex_);
  watch_.swap(watch);
}

void GroupWatch::open_early() {
  const transport::LaunchEnvironment& place = group_.launch();
  const bool one_host = place.size && place.local_size == place.size && !place.job.empty();
  if (is_off() || !one_host) return;
  const Replica& replica = group_.replica();
  const std::string whose = replica.has_others() ? fmt::format(" replica {}", replica.index) : "";
  const Endpoint endpoint = early_endpoint(place.job + whose);
  const auto wanted = options(group_.first_rank(), group_.size());
  if (wanted.rank != 0) {
    set_watch(PeerWatch::join(wanted, endpoint));
  } else if (auto hosted = PeerWatch::host(wanted, endpoint); hosted.has_value()) {
    set_watch(std::move(hosted).value());
  }
  if (watch_ != nullptr) watch_->wait_joined(kEarlyMeeting);
}

Result<void> GroupWatch::open(transport::Bootstrap& bootstrap, const ControlPlane& plane) {
  if (is_off()) return ok();
  const bool is_open = watch_ != nullptr && watch_->wait_joined(Duration::zero());
  LOCKSTEP_TRY(const std::vector<std::string> told, bootstrap.exchange(is_open ? "open" : "not open"));
  if (std::ranges::count(told, "open") == bootstrap.size()) return ok();
  if (watch_ != nullptr) watch_->leave(Duration::zero());
  set_watch(nullptr);
  return open_over_tcp(bootstrap, plane);
}

Result<void> GroupWatch::open_over_tcp(transport::Bootstrap& bootstrap, const ControlPlane& plane) {
  const auto wanted = options(bootstrap.rank(), bootstrap.size());
  const auto host = [&]() -> Result<void> {
    if (bootstrap.rank() != 0) return ok();
    const Endpoint free_port{.local = {}, .host = plane.address, .port = 0, .secret = plane.secret};
    LOCKSTEP_TRY(Watch hosted, PeerWatch::host(wanted, free_port));
    set_watch(std::move(hosted));
    return ok();
  };
  LOCKSTEP_TRY_VOID(all_succeeded(bootstrap, host()));
  LOCKSTEP_TRY(const auto told, bootstrap.exchange(watch_ == nullptr ? "" : to_text(watch_->endpoint())));
  const auto join = [&]() -> Result<void> {
    LOCKSTEP_TRY(Endpoint endpoint, transport::watch::parse_endpoint(told[0]));
    endpoint.secret = plane.secret;
    // Half of the time that the others wait for this rank.
    const Duration limit = std::min(group_.options().start_deadline, group_.options().deadline) / 2;
    if (watch_ == nullptr) {
      LOCKSTEP_TRY_VOID(check_reach(plane, bootstrap.rank(), {endpoint.host, endpoint.port}, limit));
      set_watch(PeerWatch::join(wanted, endpoint));
    }
    if (watch_->wait_joined(limit)) return ok();
    return Error{ErrorKind::kUnavailable,
                 fmt::format("[engine/group] rank {} on host {}: cannot watch the other ranks: found no answer at {} "
                             "within {:.3g} s, expected rank 0 to be reachable there; check firewalls, or name another "
                             "network with --interface",
                             bootstrap.rank(), host_name(), transport::with_port(endpoint.host, endpoint.port),
                             to_seconds(limit)),
                 bootstrap.rank()};
  };
  return all_succeeded(bootstrap, join());
}

std::string GroupWatch::missing() {
  std::lock_guard lock(mutex_);
  const std::vector<int> ranks = watch_ == nullptr ? std::vector<int>() : watch_->missing();
  return ranks.empty() ? "" : fmt::format("; found no word from {}", device::rank_list(ranks));
}

std::vector<transport::watch::Presence> GroupWatch::presence() {
  std::lock_guard lock(mutex_);
  return watch_ == nullptr || group_.first_rank() != 0 ? std::vector<transport::watch::Presence>() : watch_->presence();
}

void GroupWatch::announce_leave() {
  std::lock_guard lock(mutex_);
  if (watch_ != nullptr) watch_->announce_leave();
}

void GroupWatch::tell(const Error& error) {
  std::lock_guard lock(mutex_);
  if (watch_ != nullptr) watch_->tell(error);
}

Error GroupWatch::cause_of(const Error& error) {
  const bool may_be_an_effect = error.kind == ErrorKind::kPeerLost || error.kind == ErrorKind::kUnavailable;
  Watch watch;
  {
    std::lock_guard lock(mutex_);
    watch = watch_;
  }
  if (watch == nullptr || !may_be_an_effect) return error;
  return watch->end(kVerdict).value_or(error);
}

void GroupWatch::leave(Duration patience) {
  if (watch_ != nullptr) watch_->leave(patience);
}

}  // namespace lockstep::group
