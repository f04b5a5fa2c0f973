// Collectives with ranks as threads: uneven all-reduce, uneven all-gather, broadcast, and an aborted wait.
#include <fmt/format.h>

#include <bit>
#include <cstdio>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "transport/loopback/loopback.h"

namespace lockstep {
namespace {

using device::Communicator;
using device::Stream;

/// Runs `body` once per rank, each on a separate thread, and waits for all.
void for_each_rank(int ranks, const AbortFlag& abort, const std::function<void(Communicator&)>& body) {
  const SteadyClock clock;
  const transport::WaitOptions wait{.abort = &abort, .clock = &clock};
  const auto group = transport::loopback::make_group(ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] { body(*transport::loopback::make_communicator(group, rank, wait)); });
  }
}

/// Five leaves on three ranks, one of which has none. Magnitudes differ so much that another order of additions gives
/// other bits.
void uneven_all_reduce() {
  const std::vector<float> leaf = {1e8f, 3.0f, -1e8f, 0.1f, 7e-3f};
  const float expected = ((leaf[0] + leaf[1]) + (leaf[2] + leaf[3])) + leaf[4];
  LOCKSTEP_CHECK(expected != leaf[0] + (leaf[1] + (leaf[2] + (leaf[3] + leaf[4]))));  // the order matters

  const device::TreeSum sum({.bounds = {0, 3, 3, 5}});
  std::vector<float> result(3);
  for_each_rank(3, AbortFlag(), [&](Communicator& communicator) {
    std::vector<float> roots;
    for (const Range& node : sum.split.roots_of(communicator.rank())) {  // [0,2) [2,3) | none | [3,4) [4,5)
      roots.push_back(node.size() == 2 ? leaf[node.begin] + leaf[node.begin + 1] : leaf[node.begin]);
    }
    communicator.all_reduce(sum, roots, {&result[communicator.rank()], 1}, Stream::host()).value();
  });
  for (float value : result) {
    LOCKSTEP_CHECK(std::bit_cast<uint32_t>(value) == std::bit_cast<uint32_t>(expected), value, expected);
  }
  fmt::print("all_reduce: {} on every rank, to the bit\n", expected);
}

void uneven_all_gather() {
  const std::vector<int64_t> counts = {3, 0, 2};
  std::vector<std::vector<std::byte>> result(3, std::vector<std::byte>(5));
  for_each_rank(3, AbortFlag(), [&](Communicator& communicator) {
    const int rank = communicator.rank();
    const std::vector<std::byte> mine(counts[rank], static_cast<std::byte>(rank));
    communicator.all_gather(mine, counts, result[rank], Stream::host()).value();
  });
  const std::vector<std::byte> expected = {std::byte{0}, std::byte{0}, std::byte{0}, std::byte{2}, std::byte{2}};
  for (const auto& gathered : result) LOCKSTEP_CHECK(gathered == expected);
  fmt::print("all_gather: 3 + 0 + 2 bytes side by side\n");
}

void broadcast_from_the_last_rank() {
  std::vector<std::byte> value(4);
  for_each_rank(4, AbortFlag(), [&](Communicator& communicator) {
    std::byte byte{communicator.rank() == 3 ? uint8_t{42} : uint8_t{0}};
    communicator.broadcast({&byte, 1}, /*root=*/3, Stream::host()).value();
    value[communicator.rank()] = byte;
  });
  for (std::byte byte : value) LOCKSTEP_CHECK(byte == std::byte{42});
  fmt::print("broadcast: rank 3's byte is everywhere\n");
}

/// Rank 1 never enters the barrier; rank 0's wait ends with rank 1's reason.
void a_wait_ends_when_the_flag_is_raised() {
  AbortFlag abort;
  std::optional<Error> seen;
  for_each_rank(2, abort, [&](Communicator& communicator) {
    if (communicator.rank() == 1) {
      abort.raise({ErrorKind::kCancelled, "[examples] rank 1 has something better to do", 1});
      return;
    }
    const auto result = communicator.barrier(Stream::host());
    if (!result.has_value()) seen = result.error();
  });
  LOCKSTEP_CHECK(seen.has_value());
  LOCKSTEP_CHECK(seen->kind == ErrorKind::kCancelled, to_string(seen->kind));
  fmt::print("abort: {}\n", seen->message);
}

}  // namespace
}  // namespace lockstep

int main() try {
  lockstep::uneven_all_reduce();
  lockstep::uneven_all_gather();
  lockstep::broadcast_from_the_last_rank();
  lockstep::a_wait_ends_when_the_flag_is_raised();
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
