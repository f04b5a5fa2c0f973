// The suite with ranks as threads of this process.
#include <thread>
#include <vector>

#include "tests/conformance/communicator/implementations.h"
#include "tests/conformance/communicator/suite.h"
#include "tests/conformance/communicator/waits.h"

namespace lockstep::conformance {

void run_ranks(const Cast& cast, const std::function<void(Peer&)>& body) {
  const auto group = transport::loopback::make_group(cast.ranks, cast.implementation.message_bytes);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < cast.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Ends ends;
        const auto bootstrap = transport::loopback::make_bootstrap(group, rank, ends.wait);
        Peer peer{*bootstrap, group};
        body(peer);
      } catch (const std::exception& failure) {
        ADD_FAILURE() << "rank " << rank << ": " << failure.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

namespace {

Implementation loopback_with(std::string name, size_t message_bytes) {
  return {.name = std::move(name),
          .message_bytes = message_bytes,
          .make = [](Peer& peer, const transport::WaitOptions& wait) -> Result<std::unique_ptr<device::Communicator>> {
            return transport::loopback::make_communicator(peer.group, peer.rank(), wait);
          }};
}

std::vector<Cast> casts() {
  const Implementation loopback = loopback_with("loopback", 1 << 20);
  const Implementation shm = shm_with("shm", 1 << 20);
  std::vector<Cast> casts;
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    casts.push_back({loopback, ranks});
    casts.push_back({loopback_with("loopback_small_rounds", kSmallRound), ranks});
    casts.push_back({shm, ranks});
    casts.push_back({shm_with("shm_small_rounds", kSmallRound), ranks});
    casts.push_back({shm_with("shm_past_cache", kSmallRound, transport::shm::Copies::kPastCache), ranks});
  }
  for (const int ranks : {1, 2, 3}) casts.push_back({choosing_from(loopback, shm), ranks});
  return casts;
}

INSTANTIATE_TEST_SUITE_P(Threads, CommunicatorConformance, ::testing::ValuesIn(casts()), name_of);

}  // namespace
}  // namespace lockstep::conformance
