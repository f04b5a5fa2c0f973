// The suite with ranks as processes of mpirun; every process runs the same tests.
#include <cstdio>
#include <cstdlib>

#include "engine/group/communicators.h"
#include "tests/conformance/communicator/implementations.h"
#include "tests/conformance/communicator/suite.h"
#include "tests/conformance/communicator/test_hosts.h"
#include "tests/conformance/communicator/waits.h"
#include "transport/mpi/mpi.h"

namespace lockstep::conformance {
namespace {

transport::mpi::World* world = nullptr;  // both set in main, before any test runs
transport::Bootstrap* bootstrap = nullptr;

Implementation mpi() {
  return {.name = "mpi",
          .make = [](Peer& peer, const transport::WaitOptions& wait) -> Result<std::unique_ptr<device::Communicator>> {
            LOCKSTEP_TRY(const auto places, peer.bootstrap.places());
            LOCKSTEP_TRY(auto made, world->make_communicator(places, wait));
            return made;
          },
          .allocates = true};
}

/// Rank r of `ranks` reports the host `host_of(r, ranks)`, or without this function its real one.
Implementation two_level(std::string name, int (*host_of)(int rank, int ranks), size_t message_bytes,
                         transport::two_level::Options across) {
  return {.name = std::move(name),
          .message_bytes = message_bytes,
          .make = [=](Peer& peer, const transport::WaitOptions& wait) -> Result<std::unique_ptr<device::Communicator>> {
            LOCKSTEP_TRY(std::vector<transport::RankPlace> places, peer.bootstrap.places());
            std::vector<int> hosts;
            for (int rank = 0; rank < peer.size() && host_of; ++rank) hosts.push_back(host_of(rank, peer.size()));
            if (host_of) places = places_on(hosts);
            const group::MakePart make_part = [&](std::vector<int> members) {
              return world->make_communicator(places, wait, std::move(members));
            };
            return group::make_two_level(peer.bootstrap, make_part, places, wait,
                                         {.within = {.message_bytes = message_bytes}, .across = across});
          },
          .allocates = true,
          .sees_all = false};
}

/// Two hosts, the first with more ranks where they are odd.
int halves(int rank, int ranks) { return rank < (ranks + 1) / 2 ? 0 : 1; }
int in_turn(int rank, int) { return rank % 2; }
int three_hosts(int rank, int ranks) { return rank * 3 / std::max(ranks, 3); }

INSTANTIATE_TEST_SUITE_P(Processes, CommunicatorConformance,
                         ::testing::Values(Cast{mpi()}, Cast{shm_with("shm", 1 << 20)},
                                           Cast{shm_with("shm_small_rounds", kSmallRound)},
                                           Cast{choosing_from(shm_with("shm", 1 << 20), mpi())}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Hosts, CommunicatorConformance,
                         ::testing::Values(Cast{two_level("halves", halves, 1 << 20, {})},
                                           Cast{two_level("in_turn", in_turn, kSmallRound,
                                                          {.piece_bytes = 3 * kSmallRound, .rail_bytes = 256})},
                                           Cast{two_level("three_hosts", three_hosts, 1 << 20, {})},
                                           Cast{two_level("as_placed", nullptr, 1 << 20, {})}),
                         name_of);

}  // namespace

void run_ranks(const Cast&, const std::function<void(Peer&)>& body) {
  Peer peer{*bootstrap, nullptr};
  try {
    body(peer);
  } catch (const std::exception& failure) {
    ADD_FAILURE() << "rank " << peer.rank() << ": " << failure.what();
  }
}

}  // namespace lockstep::conformance

namespace lockstep::conformance {
namespace {

std::optional<std::string> environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Result<int> run_tests() {
  const Ends ends;
  LOCKSTEP_TRY(const auto launch, transport::read_launch_environment(environment));
  LOCKSTEP_TRY(const auto library, transport::mpi::choose_library(transport::mpi::library_choice(environment, launch)));
  LOCKSTEP_TRY(const auto started, transport::mpi::start(library, ends.wait));
  LOCKSTEP_TRY(const auto made, started->make_bootstrap(ends.wait));
  world = started.get();
  bootstrap = made.get();
  const int failed = RUN_ALL_TESTS();
  LOCKSTEP_TRY_VOID(started->finish(ends.wait));
  return failed;
}

}  // namespace
}  // namespace lockstep::conformance

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const auto ran = lockstep::conformance::run_tests();
  if (ran.has_value()) return ran.value();
  std::fprintf(stderr, "%s\n", ran.error().message.c_str());
  return 1;
}
