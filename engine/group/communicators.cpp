#include "engine/group/communicators.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "engine/group/agreement.h"
#include "transport/loopback/loopback.h"
#include "transport/nccl/nccl.h"
#include "transport/subgroup.h"
#include "transport/waiting.h"

namespace lockstep::group {
namespace {

using Places = std::vector<device::RankPlace>;
using Communicators = std::vector<std::unique_ptr<device::Communicator>>;

/// The ranks to connect.
struct RankGroup {
  Member& member;
  const Places& places;

  bool has_processes() const { return !member.group().ranks_are_threads(); }
  bool has_one_host() const { return device::on_one_host(places); }
};

/// Whether the user named the communicator or `auto` tries it.
enum class Wish { kNamed, kAuto };

/// One way to connect ranks.
struct CommunicatorRow {
  std::string_view name;
  /// The property of the ranks that it cannot connect, as in "found NAME with ranks …"; empty: it connects them.
  std::string (*why_not)(const RankGroup&);
  /// Whether it may be the fastest for some size. Called only if it connects the ranks.
  bool (*may_be_quickest)(const RankGroup&);
  /// One communicator, or for `kAuto` several to choose from; the first failure ends it. @collective @blocking
  Result<Communicators> (*make)(const RankGroup&, Wish);
};

template <typename Kind>
Result<Communicators> alone(Result<std::unique_ptr<Kind>> made) {
  Communicators communicators;
  LOCKSTEP_TRY(communicators.emplace_back(), std::move(made));
  return communicators;
}

Result<Communicators> make_loopback(const RankGroup& group, Wish) {
  const Member& member = group.member;
  Communicators communicators;
  communicators.push_back(
      transport::loopback::make_communicator(member.group().threads(), member.rank(), member.wait_options()));
  return communicators;
}

/// Whether the ranks of all replicas take turns on their cores.
transport::Crowding crowding_of(const Member& member) {
  return transport::is_crowded(member.group().launch_places()) ? transport::Crowding::kCrowded
                                                               : transport::Crowding::kAsPlaced;
}

Result<Communicators> make_shm(const RankGroup& group, Wish wish) {
  const Member& member = group.member;
  const transport::Crowding crowding = crowding_of(member);
  LOCKSTEP_TRY(Communicators ways, alone(transport::shm::make_communicator(member.bootstrap(), member.wait_options(),
                                                                           {.crowding = crowding})));
  if (wish == Wish::kNamed) return ways;
  // The distance between the cores decides which copies are faster.
  auto past_cache = transport::shm::make_communicator(
      member.bootstrap(), member.wait_options(), {.copies = transport::shm::Copies::kPastCache, .crowding = crowding});
  if (past_cache.has_value()) ways.push_back(std::move(past_cache).value());
  return ways;
}

Result<Communicators> make_mpi(const RankGroup& group, Wish) {
  Member& member = group.member;
  return alone(member.group().meeting()->make_communicator(group.places, member.wait_options(), {}));
}

/// Whether shared memory connects any two ranks.
bool some_share_a_host(const RankGroup& group) {
  return std::ranges::any_of(group.places, [](const auto& place) { return place.local_size > 1; });
}

bool of_processes(const RankGroup& group) { return group.has_processes(); }

std::string as_processes(const RankGroup& group) { return group.has_processes() ? "as processes" : ""; }
std::string as_threads(const RankGroup& group) { return group.has_processes() ? "" : "as threads"; }
std::string without_messages(const RankGroup& group) {
  if (!group.has_processes()) return as_threads(group);
  return group.member.group().meeting()->has_messages() ? "" : "started without MPI";
}
std::string on_several_hosts(const RankGroup& group) { return group.has_one_host() ? "" : "on several hosts"; }
std::string on_just_one_host(const RankGroup& group) {
  return group.has_processes() && group.has_one_host() ? "on one host" : as_threads(group);
}

/// Fastest first: if one cannot be made, `auto` continues with the next.
constexpr std::array kCommunicators = {
    CommunicatorRow{"loopback", as_processes, [](const RankGroup&) { return true; }, make_loopback},
    CommunicatorRow{"shm", on_several_hosts, of_processes, make_shm},
    CommunicatorRow{"two-level", on_just_one_host, some_share_a_host,
                    [](const RankGroup& group, Wish) { return alone(make_two_level(group.member, group.places)); }},
    CommunicatorRow{"mpi", without_messages, of_processes, make_mpi},
};

/// "auto, shm or mpi": the communicators that connect the ranks.
std::string names_that_fit(const RankGroup& group) {
  std::vector<std::string_view> names{"auto"};
  for (const CommunicatorRow& row : kCommunicators) {
    if (row.why_not(group).empty()) names.push_back(row.name);
  }
  const std::string_view last = names.back();
  names.pop_back();
  return fmt::format("{} or {}", fmt::join(names, ", "), last);
}

/// Makes those that may be the fastest. Failures are listed in `notes`, except the last one's.
Result<Communicators> make_candidates(const RankGroup& group, std::vector<std::string>& notes) {
  std::vector<const CommunicatorRow*> rows;
  for (const CommunicatorRow& row : kCommunicators) {
    if (row.why_not(group).empty() && row.may_be_quickest(group)) rows.push_back(&row);
  }
  Communicators candidates;
  for (const CommunicatorRow* row : rows) {
    Result<Communicators> made = row->make(group, Wish::kAuto);
    if (made.has_value()) {
      std::ranges::move(made.value(), std::back_inserter(candidates));
    } else if (row == rows.back()) {
      return made.error();
    } else {
      notes.push_back(fmt::format("{}; going on with {}", made.error().message, rows.back()->name));
    }
  }
  return candidates;
}

Result<Communicators> make_named(const std::string& name, const RankGroup& group) {
  const auto row = std::ranges::find(kCommunicators, name, &CommunicatorRow::name);
  if (row == kCommunicators.end()) {
    return Error{ErrorKind::kInvalidArgument, fmt::format("[engine/group] --communicator: found {}, expected one of {}",
                                                          name, fmt::join(communicator_names(), ", "))};
  }
  const std::string why_not = row->why_not(group);
  if (why_not.empty()) return row->make(group, Wish::kNamed);
  return Error{ErrorKind::kInvalidArgument, fmt::format("[engine/group] --communicator: found {} with ranks {}, "
                                                        "expected {}",
                                                        name, why_not, names_that_fit(group))};
}

}  // namespace

Result<std::unique_ptr<device::Communicator>> make_two_level(transport::Bootstrap& bootstrap, const MakePart& make_part,
                                                             const Places& places, const transport::WaitOptions& wait,
                                                             TwoLevelOptions options) {
  const int rank = bootstrap.rank();
  device::Hosts hosts = device::hosts_from(places);
  const std::vector<int>& own = hosts.of(rank).ranks;
  const int local = hosts.local_of[static_cast<size_t>(rank)];
  LOCKSTEP_TRY(auto talk, make_part(own));
  Places own_places;
  for (const int neighbour : own) own_places.push_back(places[static_cast<size_t>(neighbour)]);
  const auto host = transport::make_subgroup(std::move(talk), std::move(own_places));
  if (transport::is_crowded(places)) options.within.crowding = transport::Crowding::kCrowded;
  auto within = transport::shm::make_communicator(*host, wait, options.within);
  LOCKSTEP_TRY_VOID(all_succeeded(bootstrap, within.has_value() ? Result<void>(ok()) : Result<void>(within.error())));

  const bool on_rail = local < hosts.rails();
  const std::vector<int> rail = on_rail ? hosts.rail(local) : std::vector<int>{rank};
  LOCKSTEP_TRY(auto between, make_part(rail));
  if (!on_rail) between = nullptr;
  return transport::two_level::make_communicator(std::move(hosts), rank,
                                                 {.within = std::move(within).value(), .between = std::move(between)},
                                                 wait, options.across);
}

Result<std::unique_ptr<device::Communicator>> make_two_level(Member& member, const Places& places) {
  const transport::WaitOptions wait = member.wait_options();
  const MakePart make_part = [&](std::vector<int> members) {
    return member.group().meeting()->make_communicator(places, wait, std::move(members));
  };
  return make_two_level(member.bootstrap(), make_part, places, wait,
                        {.within = {.crowding = crowding_of(member)}, .across = {}});
}

std::vector<std::string> communicator_names() {
  std::vector<std::string> names{"auto"};
  for (const CommunicatorRow& row : kCommunicators) names.emplace_back(row.name);
  return names;
}

device::ConnectDevices connect_devices(const Member& member) {
  return transport::nccl::connect_devices(member.wait_options());
}

std::string describe_device_connections() {
  const Result<std::string> library = transport::nccl::describe();
  return library.has_value() ? fmt::format("between hosts by {}", library.value())
                             : fmt::format("no way between hosts: {}", library.error().message);
}

Result<ChosenCommunicator> make_communicator(Member& member, const std::string& name, const Places& places) {
  ChosenCommunicator chosen;
  if (member.size() == 1) return chosen;
  const RankGroup group{member, places};
  LOCKSTEP_TRY(Communicators candidates,
               name == "auto" ? make_candidates(group, chosen.notes) : make_named(name, group));
  if (!group.has_processes()) {
    chosen.communicator = std::move(candidates.front());
  } else {
    LOCKSTEP_TRY(chosen.communicator, transport::choose_communicator(member.bootstrap(), std::move(candidates),
                                                                     member.wait_options(), &chosen.choices));
  }
  const auto& wrap = member.group().hooks().communicator;
  if (wrap) chosen.communicator = wrap(member.rank(), std::move(chosen.communicator));
  return chosen;
}

}  // namespace lockstep::group
