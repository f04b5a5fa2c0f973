#include "runtime/backends/cpu/stealable_shares.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace lockstep::cpu {
namespace {

TEST(StealableShares, GivesHalfOfWhatIsLeftFromTheFrontOfTheOwnShare) {
  StealableShares shares(2);
  const Part own{0, 2};
  shares.open(own, {10, 23});
  int64_t next = 10;
  for (const int64_t size : {7, 3, 2, 1}) {
    const Share piece = shares.take(own);
    EXPECT_EQ(piece.begin, next);
    EXPECT_EQ(piece.end - piece.begin, size);
    next = piece.end;
  }
  EXPECT_EQ(next, 23);
  EXPECT_EQ(shares.take(own).end, 0);
}

TEST(StealableShares, GivesAWorkerAloneItsShareInOnePiece) {
  StealableShares shares(1);
  shares.open({0, 1}, {3, 90});
  const Share piece = shares.take({0, 1});
  EXPECT_EQ(piece.begin, 3);
  EXPECT_EQ(piece.end, 90);
}

TEST(StealableShares, GivesTheEndOfAnothersShareToAWorkerWithoutOwnUnits) {
  StealableShares shares(2);
  const Part first{0, 2}, second{1, 2};
  shares.open(second, {4, 9});
  shares.open(first, {0, 0});
  const Share stolen = shares.take(first);
  EXPECT_EQ(stolen.begin, 6);
  EXPECT_EQ(stolen.end, 9);
  const Share own = shares.take(second);
  EXPECT_EQ(own.begin, 4);
  EXPECT_EQ(own.end, 5);
}

/// The shares of every round, with all workers at once: no unit is left out or given twice, however late one opens.
struct Rounds {
  static constexpr int kRounds = 500, kUnits = 37;
  ThreadTeam* team;
  StealableShares shares;
  std::vector<std::atomic<int>> given = std::vector<std::atomic<int>>(kUnits);
  std::atomic<int> mistakes = 0;

  static void job(void* self, Part part) {
    auto& rounds = *static_cast<Rounds*>(self);
    for (int round = 1; round <= kRounds; ++round) {
      for (int i = 0; i < (round + part.worker) % 3 * 100; ++i) rounds.given[0].load();  // late now and then
      rounds.shares.open(part, share_of(kUnits, part));
      for (Share piece = rounds.shares.take(part); piece.begin < piece.end; piece = rounds.shares.take(part)) {
        for (int64_t unit = piece.begin; unit < piece.end; ++unit) ++rounds.given[static_cast<size_t>(unit)];
      }
      rounds.team->meet();
      for (int unit = part.worker; unit < kUnits; unit += part.workers) {
        if (rounds.given[static_cast<size_t>(unit)] != round) ++rounds.mistakes;
      }
      rounds.team->meet();
    }
  }
};

TEST(StealableShares, GivesEveryUnitOnceInEveryRound) {
  for (const int threads : {1, 2, 4}) {
    const auto team = ThreadTeam::start(threads, {}).value();
    Rounds rounds{.team = team.get(), .shares = StealableShares(threads)};
    team->run(Rounds::job, &rounds);
    EXPECT_EQ(rounds.mistakes, 0) << threads;
  }
}

}  // namespace
}  // namespace lockstep::cpu
