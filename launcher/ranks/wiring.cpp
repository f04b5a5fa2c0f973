#include "launcher/ranks/wiring.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "launcher/ranks/agreements.h"
#include "runtime/backends/cpu/cpu.h"
#include "runtime/backends/reference/reference.h"
#include "transport/shm/shm.h"
#include "transport/subgroup.h"
#include "transport/waiting.h"

namespace lockstep::launcher {
namespace {

Error wrong_for_launch(const std::string& name, std::string_view launch, std::string_view expected) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[launcher] --communicator: found {} with ranks as {}, expected {}", name, launch, expected)};
}

}  // namespace

bool on_one_host(const std::vector<transport::RankPlace>& places) {
  return std::all_of(places.begin(), places.end(), [&](const auto& place) { return place.node == places[0].node; });
}

int default_threads(const std::vector<transport::RankPlace>& places, int rank) {
  const transport::RankPlace& own = places.at(static_cast<size_t>(rank));
  double share = 0.0;
  for (int core : own.cores) {
    const auto users = std::count_if(places.begin(), places.end(), [&](const transport::RankPlace& place) {
      return machine_of(place) == machine_of(own) &&
             std::find(place.cores.begin(), place.cores.end(), core) != place.cores.end();
    });
    share += 1.0 / static_cast<double>(std::max<std::ptrdiff_t>(users, 1));
  }
  return std::max(1, static_cast<int>(share + 1e-9));
}

Result<std::unique_ptr<device::Backend>> make_backend(const RunOptions& run, int threads, std::vector<int> cores) {
  if (run.backend == "reference") return reference::make_backend({.threads = threads, .module_directory = {}});
  LOCKSTEP_CHECK(run.backend == "cpu", run.backend);
  return cpu::make_backend(
      {.threads = threads, .cores = std::move(cores), .isa = cpu::isa_of(instruction_set_of(run))});
}

std::string instruction_set_of(const RunOptions& run) {
  return run.instruction_set.value_or(std::string(cpu::to_string(cpu::best_isa())));
}

Result<std::unique_ptr<device::Communicator>> make_two_level(transport::mpi::World& mpi,
                                                             transport::Bootstrap& bootstrap,
                                                             const std::vector<transport::RankPlace>& places,
                                                             const transport::WaitOptions& wait,
                                                             TwoLevelOptions options) {
  const int rank = bootstrap.rank();
  transport::two_level::Hosts hosts = transport::two_level::hosts_from(places);
  const std::vector<int>& own = hosts.of(rank).ranks;
  const int local = hosts.local_of[static_cast<size_t>(rank)];
  LOCKSTEP_TRY(auto talk, mpi.make_communicator(places, wait, own));
  std::vector<transport::RankPlace> own_places;
  for (const int neighbour : own) own_places.push_back(places[static_cast<size_t>(neighbour)]);
  const auto host = transport::make_subgroup(std::move(talk), std::move(own_places));
  if (transport::is_crowded(places)) options.within.crowding = transport::Crowding::kCrowded;
  auto within = transport::shm::make_communicator(*host, wait, options.within);
  LOCKSTEP_TRY_VOID(all_succeeded(bootstrap, within.has_value() ? Result<void>(ok()) : Result<void>(within.error())));

  const bool on_rail = local < hosts.rails();
  LOCKSTEP_TRY(auto between, mpi.make_communicator(places, wait, on_rail ? hosts.rail(local) : std::vector<int>{rank}));
  if (!on_rail) between = nullptr;
  return transport::two_level::make_communicator(std::move(hosts), rank,
                                                 {.within = std::move(within).value(), .between = std::move(between)},
                                                 wait, options.across);
}

namespace {

Error wrong_for_hosts(std::string_view name, const std::vector<transport::RankPlace>& places) {
  const bool one = on_one_host(places);
  return {ErrorKind::kInvalidArgument,
          fmt::format("[launcher] --communicator: found {} with ranks on {}, expected {}", name,
                      one ? "one host" : "several hosts", one ? "auto, shm or mpi" : "auto, two-level or mpi")};
}

/// Whether shared memory connects any two ranks.
bool some_share_a_host(const std::vector<transport::RankPlace>& places) {
  return std::any_of(places.begin(), places.end(), [](const auto& place) { return place.local_size > 1; });
}

/// What there is to choose from between processes, by names that the user may give.
Result<std::vector<std::unique_ptr<device::Communicator>>> candidates_for(
    const std::string& name, transport::Bootstrap& bootstrap, transport::mpi::World& mpi,
    const std::vector<transport::RankPlace>& places, const transport::WaitOptions& wait,
    std::vector<std::string>& notes) {
  std::vector<std::unique_ptr<device::Communicator>> candidates;
  const bool one_host = on_one_host(places);
  const bool any = name == "auto";
  const auto add = [&](auto made, std::string_view instead) -> Result<void> {
    if (!made.has_value() && (!any || instead.empty())) return made.error();
    if (made.has_value()) {
      candidates.push_back(std::move(made).value());
    } else {
      notes.push_back(fmt::format("{}; going on with {}", made.error().message, instead));
    }
    return ok();
  };
  if (one_host && (any || name == "shm")) {
    LOCKSTEP_TRY_VOID(add(transport::shm::make_communicator(bootstrap, wait), "mpi"));
    if (any && !candidates.empty()) {  // how far apart the cores are decides which copies are quicker
      LOCKSTEP_TRY_VOID(add(
          transport::shm::make_communicator(bootstrap, wait, {.copies = transport::shm::Copies::kPastCache}), "shm"));
    }
  }
  if (!one_host && (name == "two-level" || (any && some_share_a_host(places)))) {
    LOCKSTEP_TRY_VOID(add(make_two_level(mpi, bootstrap, places, wait), "mpi"));
  }
  if (any || name == "mpi") LOCKSTEP_TRY_VOID(add(mpi.make_communicator(places, wait), ""));
  return candidates;
}

}  // namespace

Result<ChosenCommunicator> make_communicator(const std::string& name, transport::Bootstrap& bootstrap,
                                             transport::mpi::World* mpi,
                                             const std::shared_ptr<transport::loopback::Group>& threads,
                                             const std::vector<transport::RankPlace>& places,
                                             const transport::WaitOptions& wait) {
  ChosenCommunicator chosen;
  if (bootstrap.size() == 1) return chosen;
  if (threads != nullptr) {
    if (name == "mpi" || name == "two-level") return wrong_for_launch(name, "threads", "auto, loopback or shm");
    if (name == "shm") {
      LOCKSTEP_TRY(chosen.communicator, transport::shm::make_communicator(bootstrap, wait));
    } else {
      chosen.communicator = transport::loopback::make_communicator(threads, bootstrap.rank(), wait);
    }
    return chosen;
  }
  LOCKSTEP_CHECK(mpi != nullptr);
  if (name == "loopback") return wrong_for_launch(name, "processes", "auto, shm, mpi or two-level");
  if (name == (on_one_host(places) ? "two-level" : "shm")) return wrong_for_hosts(name, places);
  LOCKSTEP_TRY(auto candidates, candidates_for(name, bootstrap, *mpi, places, wait, chosen.notes));
  LOCKSTEP_TRY(chosen.communicator,
               transport::choose_communicator(bootstrap, std::move(candidates), wait, &chosen.choices));
  return chosen;
}

}  // namespace lockstep::launcher
