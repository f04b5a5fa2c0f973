#include "launcher/ranks/wiring.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "runtime/backends/cpu/cpu.h"
#include "runtime/backends/reference/reference.h"
#include "transport/mpi/mpi.h"
#include "transport/shm/shm.h"

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
      return place.node == own.node && std::find(place.cores.begin(), place.cores.end(), core) != place.cores.end();
    });
    share += 1.0 / static_cast<double>(std::max<std::ptrdiff_t>(users, 1));
  }
  return std::max(1, static_cast<int>(share + 1e-9));
}

Result<std::unique_ptr<device::Backend>> make_backend(const std::string& name, int threads) {
  if (name == "reference") return reference::make_backend({.threads = threads, .module_directory = {}});
  LOCKSTEP_CHECK(name == "cpu", name);
  return cpu::make_backend({.threads = threads});
}

Result<ChosenCommunicator> make_communicator(const std::string& name, transport::Bootstrap& bootstrap,
                                             const std::shared_ptr<transport::loopback::Group>& threads,
                                             const std::vector<transport::RankPlace>& places,
                                             const transport::WaitOptions& wait) {
  ChosenCommunicator chosen;
  if (bootstrap.size() == 1) return chosen;
  if (threads != nullptr) {
    if (name == "mpi") return wrong_for_launch(name, "threads", "auto, loopback or shm");
    if (name == "shm") {
      LOCKSTEP_TRY(chosen.communicator, transport::shm::make_communicator(bootstrap, wait));
    } else {
      chosen.communicator = transport::loopback::make_communicator(threads, bootstrap.rank(), wait);
    }
    return chosen;
  }
  if (name == "loopback") return wrong_for_launch(name, "processes", "auto, shm or mpi");
  std::vector<std::unique_ptr<device::Communicator>> candidates;
  if (name == "shm" || (name == "auto" && on_one_host(places))) {
    auto shm = transport::shm::make_communicator(bootstrap, wait);
    if (!shm.has_value() && name == "shm") return shm.error();
    if (shm.has_value()) candidates.push_back(std::move(shm).value());
  }
  if (name == "mpi" || name == "auto") {
    LOCKSTEP_TRY(auto mpi, transport::mpi::make_communicator(bootstrap, wait));
    candidates.push_back(std::move(mpi));
  }
  LOCKSTEP_TRY(chosen.communicator,
               transport::choose_communicator(bootstrap, std::move(candidates), wait, &chosen.choices));
  return chosen;
}

}  // namespace lockstep::launcher
