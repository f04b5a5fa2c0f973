// The suite with ranks as processes: run by mpirun, every process is one rank and runs the same tests.
#include <cstdio>

#include "tests/conformance/communicator/implementations.h"
#include "tests/conformance/communicator/suite.h"
#include "tests/conformance/communicator/waits.h"
#include "transport/mpi/mpi.h"

namespace lockstep::conformance {
namespace {

transport::Bootstrap* world = nullptr;  // set in main, before any test runs

Implementation mpi() {
  return {.name = "mpi",
          .make =
              [](Peer& peer, const transport::WaitOptions& wait) {
                return transport::mpi::make_communicator(peer.bootstrap, wait);
              },
          .allocates = true};
}

INSTANTIATE_TEST_SUITE_P(Processes, CommunicatorConformance,
                         ::testing::Values(Cast{mpi()}, Cast{shm_with("shm", 1 << 20)},
                                           Cast{shm_with("shm_small_rounds", kSmallRound)},
                                           Cast{choosing_from(shm_with("shm", 1 << 20), mpi())}),
                         name_of);

}  // namespace

void run_ranks(const Cast&, const std::function<void(Peer&)>& body) {
  Peer peer{*world, nullptr};
  try {
    body(peer);
  } catch (const std::exception& failure) {
    ADD_FAILURE() << "rank " << peer.rank() << ": " << failure.what();
  }
}

}  // namespace lockstep::conformance

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  lockstep::conformance::Ends ends;
  auto bootstrap = lockstep::transport::mpi::make_bootstrap(ends.wait);
  if (!bootstrap.has_value()) {
    std::fprintf(stderr, "%s\n", bootstrap.error().message.c_str());
    return 1;
  }
  lockstep::conformance::world = bootstrap.value().get();
  const int failed = RUN_ALL_TESTS();
  const auto left = bootstrap.value()->finish();
  if (!left.has_value()) std::fprintf(stderr, "%s\n", left.error().message.c_str());
  return failed != 0 || !left.has_value() ? 1 : 0;
}
