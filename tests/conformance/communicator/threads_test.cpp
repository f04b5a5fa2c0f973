// The suite with ranks as threads of this process.
#include <fmt/format.h>

#include <thread>
#include <vector>

#include "tests/conformance/communicator/implementations.h"
#include "tests/conformance/communicator/suite.h"
#include "tests/conformance/communicator/test_hosts.h"
#include "tests/conformance/communicator/waits.h"
#include "transport/two_level/two_level.h"

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
          },
          .lends_places = true};
}

/// Rank 0's value on every rank: they are threads of one process.
template <typename Value>
std::shared_ptr<Value> shared_by_all(Peer& peer, std::shared_ptr<Value> mine) {
  const auto texts = peer.bootstrap.exchange(fmt::format("{}", reinterpret_cast<uintptr_t>(&mine)));
  const auto of_first = *reinterpret_cast<std::shared_ptr<Value>*>(std::stoull(texts.value().front()));
  EXPECT_TRUE(peer.bootstrap.barrier().has_value());  // no rank leaves before all have it
  return of_first;
}

/// Rank r is on host `hosts[r]`.
Implementation two_level_with(std::string name, std::vector<int> hosts, size_t message_bytes,
                              transport::two_level::Options options) {
  return {.name = std::move(name),
          .message_bytes = message_bytes,
          .make = [=](Peer& peer, const transport::WaitOptions& wait) -> Result<std::unique_ptr<device::Communicator>> {
            const auto made = shared_by_all(peer, std::make_shared<ThreadHosts>(hosts, message_bytes));
            return made->make_communicator(peer.rank(), wait, options);
          },
          .sees_all = false};
}

/// Hosts of even and of uneven sizes, ranks host by host and in turn.
const std::vector<std::vector<int>> kHostMaps = {{0, 1},          {0, 0, 1},    {0, 1, 0},       {0, 0, 1, 1},
                                                 {0, 1, 0, 1},    {0, 1, 2},    {0, 0, 0, 1, 1}, {0, 0, 1, 1, 2},
                                                 {0, 1, 0, 2, 1}, {0, 1, 1, 0}, {0, 1, 1, 1}};

std::string map_name(const std::vector<int>& hosts) {
  std::string name;
  for (const int host : hosts) name += static_cast<char>('a' + host);
  return name;
}

std::vector<Cast> two_level_casts() {
  std::vector<Cast> casts;
  for (const std::vector<int>& hosts : kHostMaps) {
    const int ranks = static_cast<int>(hosts.size());
    casts.push_back({two_level_with("two_level_" + map_name(hosts), hosts, 1 << 20, {}), ranks});
    // Pieces shorter and longer than the rounds of the parts, and a rail for every few lines.
    casts.push_back({two_level_with("two_level_many_rails_" + map_name(hosts), hosts, kSmallRound,
                                    {.piece_bytes = 3 * kSmallRound, .rail_bytes = 256}),
                     ranks});
  }
  return casts;
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
  const auto named =
      shm_with("shm_named", kSmallRound, transport::shm::Copies::kThroughCache, transport::shm::FileKind::kNamed);
  casts.push_back({named, 3});
  const auto memory =
      shm_with("shm_memory", kSmallRound, transport::shm::Copies::kThroughCache, transport::shm::FileKind::kMemory);
  casts.push_back({memory, 3});
  for (const int ranks : {1, 2, 3}) casts.push_back({choosing_from(loopback, shm), ranks});
  return casts;
}

INSTANTIATE_TEST_SUITE_P(Hosts, CommunicatorConformance, ::testing::ValuesIn(two_level_casts()), name_of);
INSTANTIATE_TEST_SUITE_P(Threads, CommunicatorConformance, ::testing::ValuesIn(casts()), name_of);

}  // namespace
}  // namespace lockstep::conformance
