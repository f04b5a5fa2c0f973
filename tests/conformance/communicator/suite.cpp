#include "tests/conformance/communicator/suite.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include "tests/allocation_count.h"
#include "tests/conformance/communicator/operations.h"

namespace lockstep::conformance {
namespace {

using device::OperationMark;
using ::testing::HasSubstr;

void expect_ok(const Result<void>& result) { EXPECT_TRUE(result.has_value()) << result.error().message; }

/// Element counts around nothing, one cache line, one round, and several rounds.
std::vector<int64_t> element_counts(const Implementation& implementation) {
  const auto round = static_cast<int64_t>(implementation.message_bytes / sizeof(float));
  if (round > 100000) return {0, 1, 17, 2048, 20011};
  return {0, 1, 15, 16, 257, round, round + 1, 3 * round + 5};
}

/// Longer than a round where rounds are short; elsewhere long enough to matter.
int64_t long_message(const Implementation& implementation) {
  return static_cast<int64_t>(std::min<size_t>(implementation.message_bytes, 96 * 1024));
}

void expect_same_bits(std::span<const float> found, std::span<const float> expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::bit_cast<uint32_t>(found[i]) == std::bit_cast<uint32_t>(expected[i])) continue;
    ADD_FAILURE() << what << ": element " << i << " is " << found[i] << ", expected " << expected[i];
    return;
  }
}

void reduce_and_check(Communicator& communicator, const TreeSum& sum, int64_t elements) {
  const std::vector<float> roots = reference_roots(sum.split, communicator.rank(), elements);
  std::vector<float> dst(static_cast<size_t>(elements), -1.0f);
  const Result<void> done = communicator.all_reduce(sum, roots, dst, kHost);
  ASSERT_TRUE(done.has_value()) << done.error().message;
  expect_same_bits(dst, reference_sum(sum.split.leaves(), elements),
                   fmt::format("{} leaves, {} elements", sum.split.leaves(), elements));
}

/// The same with the roots in the communicator's lent buffer, if it has one. Returns whether it had one.
bool reduce_in_place_and_check(Communicator& communicator, const TreeSum& sum, int64_t elements) {
  const std::vector<float> roots = reference_roots(sum.split, communicator.rank(), elements);
  const std::span<float> place = communicator.place_for_roots(sum, static_cast<size_t>(elements));
  if (place.empty()) return reduce_and_check(communicator, sum, elements), false;
  EXPECT_EQ(place.size(), roots.size());
  std::ranges::copy(roots, place.begin());
  std::vector<float> dst(static_cast<size_t>(elements), -1.0f);
  const Result<void> done = communicator.all_reduce(sum, place, dst, kHost);
  EXPECT_TRUE(done.has_value()) << done.error().message;
  expect_same_bits(dst, reference_sum(sum.split.leaves(), elements),
                   fmt::format("in place: {} leaves, {} elements", sum.split.leaves(), elements));
  return true;
}

void gather_and_check(Communicator& communicator, const std::vector<int64_t>& counts) {
  std::vector<std::byte> expected;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const std::vector<std::byte> part = pattern_of(rank, counts[rank]);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  std::vector<std::byte> dst(expected.size(), std::byte{0xee});
  const Result<void> done =
      communicator.all_gather(pattern_of(communicator.rank(), counts[communicator.rank()]), counts, dst, kHost);
  ASSERT_TRUE(done.has_value()) << done.error().message;
  EXPECT_TRUE(dst == expected) << fmt::format("gather of {} bytes", expected.size());
}

void broadcast_and_check(Communicator& communicator, int root, int64_t bytes) {
  std::vector<std::byte> values = pattern_of(communicator.rank(), bytes);
  const Result<void> done = communicator.broadcast(values, root, kHost);
  ASSERT_TRUE(done.has_value()) << done.error().message;
  EXPECT_TRUE(values == pattern_of(root, bytes)) << fmt::format("broadcast of {} bytes from {}", bytes, root);
}

TreeSum uneven_sum(int ranks) { return TreeSum(splits_for(ranks)[1]); }

TEST(TreeReference, TellsOrdersOfAdditionApart) {
  int different = 0;
  const std::vector<float> tree = reference_sum(9, 100);
  for (int64_t i = 0; i < 100; ++i) {
    float in_a_row = 0;
    for (int64_t leaf = 0; leaf < 9; ++leaf) in_a_row += leaf_value(leaf, i);
    different += in_a_row != tree[i];
  }
  EXPECT_GT(different, 30);
}

TEST_P(CommunicatorConformance, SumsAlongTheTreeToTheBit) {
  run_ranks(GetParam(), [&](Peer& peer) {
    Ends ends;
    const auto communicator = make(GetParam(), peer, ends);
    for (const BlockSplit& split : splits_for(peer.size())) {
      const TreeSum sum(split);
      for (const int64_t elements : element_counts(GetParam().implementation)) {
        reduce_and_check(*communicator, sum, elements);
      }
    }
  });
}

TEST_P(CommunicatorConformance, SumsRootsThatWereWrittenInItsOwnPlace) {
  run_ranks(GetParam(), [&](Peer& peer) {
    Ends ends;
    const auto communicator = make(GetParam(), peer, ends);
    int places = 0;
    for (const BlockSplit& split : splits_for(peer.size())) {
      const TreeSum sum(split);
      for (const int64_t elements : element_counts(GetParam().implementation)) {
        // A rank may lend for one sum and copy for the next, whatever its peers do.
        for (int i = 0; i < 3; ++i) places += reduce_in_place_and_check(*communicator, sum, elements) ? 1 : 0;
        if (peer.rank() % 2 == 0) reduce_and_check(*communicator, sum, elements);
        if (peer.rank() % 2 == 1) reduce_in_place_and_check(*communicator, sum, elements);
        gather_and_check(*communicator, std::vector<int64_t>(static_cast<size_t>(peer.size()), 100));
      }
    }
    EXPECT_TRUE(places > 0 || !GetParam().implementation.lends_places);
  });
}

TEST_P(CommunicatorConformance, GathersPartsOfAnySizeInOrderOfRank) {
  run_ranks(GetParam(), [&](Peer& peer) {
    Ends ends;
    const auto communicator = make(GetParam(), peer, ends);
    const int64_t round = long_message(GetParam().implementation);
    const auto ranks = static_cast<size_t>(peer.size());
    for (const int64_t bytes : {int64_t{1}, int64_t{13}, int64_t{4096}, round, round + 3}) {
      gather_and_check(*communicator, std::vector<int64_t>(ranks, bytes));
      std::vector<int64_t> growing(ranks);
      for (size_t rank = 0; rank < ranks; ++rank) growing[rank] = bytes * static_cast<int64_t>(rank) / 2;
      gather_and_check(*communicator, growing);
    }
  });
}

TEST_P(CommunicatorConformance, GathersNothingFromRanksThatHaveNothing) {
  run_ranks(GetParam(), [&](Peer& peer) {
    Ends ends;
    const auto communicator = make(GetParam(), peer, ends);
    const auto ranks = static_cast<size_t>(peer.size());
    gather_and_check(*communicator, std::vector<int64_t>(ranks, 0));
    for (size_t giver = 0; giver < ranks; ++giver) {
      std::vector<int64_t> counts(ranks, 0);
      counts[giver] = 3 * long_message(GetParam().implementation) / 2 + 1;
      gather_and_check(*communicator, counts);
    }
  });
}

TEST_P(CommunicatorConformance, GathersInPlace) {
  run_ranks(GetParam(), [&](Peer& peer) {
    Ends ends;
    const auto communicator = make(GetParam(), peer, ends);
    const std::vector<int64_t> counts(static_cast<size_t>(peer.size()), 1000);
    std::vector<std::byte> dst(1000 * counts.size());
    const auto own = std::span(dst).subspan(1000 * static_cast<size_t>(peer.rank()), 1000);
    std::ranges::copy(pattern_of(peer.rank(), 1000), own.begin());
    expect_ok(communicator->all_gather(own, counts, dst, kHost));
    for (int rank = 0; rank < peer.size(); ++rank) {
      EXPECT_TRUE(std::ranges::equal(pattern_of(rank, 1000), std::span(dst).subspan(1000 * rank, 1000)));
    }
  });
}

TEST_P(CommunicatorConformance, BroadcastsFromEveryRoot) {
  run_ranks(GetParam(), [&](Peer& peer) {
    Ends ends;
    const auto communicator = make(GetParam(), peer, ends);
    const int64_t round = long_message(GetParam().implementation);
    for (int root = 0; root < peer.size(); ++root) {
      for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{777}, round, 2 * round + 1}) {
        broadcast_and_check(*communicator, root, bytes);
      }
    }
  });
}

TEST_P(CommunicatorConformance, LeavesABarrierAfterTheLastHasEntered) {
  run_ranks(GetParam(), [&](Peer& peer) {
    Ends ends;
    const auto communicator = make(GetParam(), peer, ends);
    const SteadyClock clock;  // one clock for all processes of a host
    for (int i = 0; i < 20; ++i) {
      const int64_t before = clock.now().time_since_epoch().count();
      expect_ok(communicator->barrier(kHost));
      const int64_t times[2] = {before, clock.now().time_since_epoch().count()};
      std::vector<int64_t> all(2 * static_cast<size_t>(peer.size()));
      const std::vector<int64_t> counts(static_cast<size_t>(peer.size()), sizeof(times));
      expect_ok(communicator->all_gather(std::as_bytes(std::span(times)), counts,
                                         std::as_writable_bytes(std::span(all)), kHost));
      int64_t last_entry = 0;
      for (size_t rank = 0; rank < counts.size(); ++rank) last_entry = std::max(last_entry, all[2 * rank]);
      for (size_t rank = 0; rank < counts.size(); ++rank) EXPECT_GE(all[2 * rank + 1], last_entry);
    }
  });
}

TEST_P(CommunicatorConformance, KeepsAThousandMixedOperationsInOrder) {
  run_ranks(GetParam(), [&](Peer& peer) {
    Ends ends;
    const auto communicator = make(GetParam(), peer, ends);
    const TreeSum sum = uneven_sum(peer.size());
    uint32_t random = 1;  // the same on every rank
    for (int i = 0; i < 1000 && !::testing::Test::HasFailure(); ++i) {
      random = random * 1664525u + 1013904223u;
      const auto size = static_cast<int64_t>(random >> 8 & 0x3ff);
      switch (random >> 28 & 3) {
        case 0: reduce_and_check(*communicator, sum, size); break;
        case 1: gather_and_check(*communicator, std::vector<int64_t>(static_cast<size_t>(peer.size()), size)); break;
        case 2: broadcast_and_check(*communicator, static_cast<int>(size) % peer.size(), size); break;
        default: expect_ok(communicator->barrier(kHost));
      }
    }
    EXPECT_EQ(communicator->last_operation().sequence, 1000u);
  });
}

TEST_P(CommunicatorConformance, KeepsTwoCommunicatorsApart) {
  run_ranks(GetParam(), [&](Peer& peer) {
    Ends ends;
    const auto first = make(GetParam(), peer, ends);
    const auto second = make(GetParam(), peer, ends);
    for (int i = 0; i < 10; ++i) {
      broadcast_and_check(*first, 0, 100 + i);
      gather_and_check(*second, std::vector<int64_t>(static_cast<size_t>(peer.size()), 50 + i));
      reduce_and_check(*first, uneven_sum(peer.size()), 30 + i);
    }
  });
}

TEST_P(CommunicatorConformance, TellsItsPlace) {
  run_ranks(GetParam(), [&](Peer& peer) {
    Ends ends;
    const auto communicator = make(GetParam(), peer, ends);
    EXPECT_EQ(communicator->rank(), peer.rank());
    EXPECT_EQ(communicator->size(), peer.size());
    EXPECT_FALSE(communicator->name().empty());
  });
}

TEST_P(CommunicatorConformance, RemembersTheLastOperation) {
  run_ranks(GetParam(), [&](Peer& peer) {
    Ends ends;
    const auto communicator = make(GetParam(), peer, ends);
    EXPECT_STREQ(communicator->last_operation().operation, "none");
    EXPECT_EQ(communicator->last_operation().sequence, 0u);
    uint64_t sequence = 0;
    for (const NamedOperation& operation : kOperations) {
      expect_ok(operation.run(*communicator));
      EXPECT_STREQ(communicator->last_operation().operation, operation.name);
      EXPECT_EQ(communicator->last_operation().sequence, ++sequence);
    }
    expect_ok(run_all_gather(*communicator));
    EXPECT_EQ(communicator->last_operation().bytes, 24u);
  });
}

TEST_P(CommunicatorConformance, TakesNothingFromTheHeapInSteadyState) {
  if (GetParam().implementation.allocates) GTEST_SKIP() << "a library below it may";
  run_ranks(GetParam(), [&](Peer& peer) {
    Ends ends;
    const auto communicator = make(GetParam(), peer, ends);
    const TreeSum sum = uneven_sum(peer.size());
    const std::vector<float> roots = reference_roots(sum.split, peer.rank(), 5000);
    const std::vector<int64_t> counts(static_cast<size_t>(peer.size()), 24);
    std::vector<float> dst(5000);
    std::vector<std::byte> gathered(24 * counts.size());
    int64_t before = 0;
    bool all_ok = true;
    for (int i = 0; i < 101; ++i) {
      if (i == 1) before = allocations_of_this_thread();  // the first round may grow scratch memory
      all_ok &= communicator->all_reduce(sum, roots, dst, kHost).has_value();
      all_ok &= communicator->all_gather(std::as_bytes(std::span(dst)).first(24), counts, gathered, kHost).has_value();
      all_ok &= communicator->broadcast(gathered, 0, kHost).has_value();
      all_ok &= communicator->barrier(kHost).has_value();
    }
    EXPECT_EQ(allocations_of_this_thread() - before, 0);
    EXPECT_TRUE(all_ok);
  });
}

}  // namespace
}  // namespace lockstep::conformance
