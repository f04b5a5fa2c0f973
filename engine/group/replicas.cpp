#include "engine/group/replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::group {
namespace {

constexpr std::string_view kOfLaunch = "of the launch";  // in every message that names ranks of the launch

/// `function` with the rank, its first argument, as one of the launch; empty if it is empty.
template <typename Return, typename... More>
std::function<Return(int, More...)> shifted(std::function<Return(int, More...)> function, int first) {
  if (!function) return {};
  return [function = std::move(function), first](int rank, More... more) {
    return function(rank + first, std::forward<More>(more)...);
  };
}

}  // namespace

Result<Replica> find_replica(int launch_rank, int launch_ranks, int ranks_per_replica) {
  if (ranks_per_replica < 1) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("[engine/group] cannot make replicas: found {} ranks in each, expected at least 1",
                             ranks_per_replica)};
  }
  if (launch_ranks % ranks_per_replica == 0) {
    const int index = launch_rank / ranks_per_replica;
    return Replica{.index = index, .count = launch_ranks / ranks_per_replica, .first = index * ranks_per_replica};
  }
  return Error{
      ErrorKind::kFailedPrecondition,
      fmt::format("[engine/group] cannot make replicas of {} ranks: found {} ranks that were started, expected "
                  "a multiple of {}; start as many, or choose a divisor",
                  ranks_per_replica, launch_ranks, ranks_per_replica)};
}

Result<std::vector<transport::RankPlace>> places_of_job(transport::Bootstrap& bootstrap,
                                                        const transport::LaunchEnvironment& launch) {
  LOCKSTEP_TRY(auto places, bootstrap.places());
  LOCKSTEP_TRY(const auto told, bootstrap.exchange(fmt::format("{}", launch.job_cores.value_or(0))));
  for (transport::RankPlace& place : places) {
    const int job_cores = std::stoi(told.at(static_cast<size_t>(place.rank)));
    if (job_cores > 0) place.host_cores = std::min(place.host_cores, job_cores);
  }
  return places;
}

Error in_launch_ranks(Error error, const Replica& replica) {
  if (!error.origin_rank) return error;
  const bool is_told = replica.first == 0 || error.message.find(kOfLaunch) != std::string::npos;
  if (!is_told) {
    error.message += fmt::format("; rank {} of replica {} is rank {} {}", *error.origin_rank, replica.index,
                                 *error.origin_rank + replica.first, kOfLaunch);
  }
  *error.origin_rank += replica.first;
  return error;
}

Error from_launch_ranks(Error error, const Replica& replica) {
  if (!replica.has_others()) return error;
  error.message += fmt::format(" (ranks {})", kOfLaunch);
  if (error.origin_rank) *error.origin_rank -= replica.first;
  return error;
}

Hooks for_launch_ranks(Hooks hooks, const Replica& replica) {
  if (!replica.has_others()) return hooks;
  const int first = replica.first;
  hooks.on_phase = shifted(std::move(hooks.on_phase), first);
  hooks.on_step = shifted(std::move(hooks.on_step), first);
  hooks.on_running = shifted(std::move(hooks.on_running), first);
  hooks.on_weights = shifted(std::move(hooks.on_weights), first);
  hooks.on_resident_weights = shifted(std::move(hooks.on_resident_weights), first);
  hooks.activity = shifted(std::move(hooks.activity), first);
  hooks.bootstrap = shifted(std::move(hooks.bootstrap), first);
  hooks.communicator = shifted(std::move(hooks.communicator), first);
  if (!hooks.settle) return hooks;
  hooks.settle = [settle = std::move(hooks.settle), replica](int rank, const Error& error) {
    Error settled = settle(rank + replica.first, in_launch_ranks(error, replica));
    if (settled.origin_rank) *settled.origin_rank -= replica.first;
    return settled;
  };
  return hooks;
}

GroupOptions for_launch_ranks(GroupOptions options, const Replica& replica) {
  if (replica.has_others()) options.log = shifted(std::move(options.log), replica.first);
  return options;
}

}  // namespace lockstep::group
