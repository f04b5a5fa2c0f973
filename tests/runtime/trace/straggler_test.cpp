#include "runtime/trace/straggler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/trace/timelines.h"

namespace lockstep::trace {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

/// Decode collectives that the ranks enter so many milliseconds after the begin of each, which are 100 ms apart.
std::vector<RankTimeline> ranks_entering(const std::vector<std::vector<int>>& entries_of_each) {
  std::vector<RankTimeline> ranks(entries_of_each.front().size());
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].rank = static_cast<int>(rank);
    ranks[rank].host = "node" + std::to_string(rank / 2);
    ranks[rank].cores = {static_cast<int>(rank)};
    ranks[rank].step_totals[1] = {1, 1, milliseconds(100 * entries_of_each.size())};
    for (size_t i = 0; i < entries_of_each.size(); ++i) {
      const int64_t begin = static_cast<int64_t>(100 * i);
      add_collective(ranks[rank], collective(StepPhase::kDecode, begin + entries_of_each[i][rank], begin + 99));
    }
  }
  return ranks;
}

TEST(Straggler, CountsWhoComesLastAndWhatThatCosts) {
  const auto ranks = ranks_entering({{0, 10, 40}, {0, 20, 5}, {7, 7, 37}});
  const Arrivals arrivals = arrivals_at(ranks, StepPhase::kDecode);
  EXPECT_EQ(arrivals.collectives, 3);
  EXPECT_EQ(arrivals.ranks[0], (RankArrivals{0, milliseconds(0), milliseconds(-5)}));
  EXPECT_EQ(arrivals.ranks[1], (RankArrivals{1, milliseconds(15), milliseconds(0)}));
  EXPECT_EQ(arrivals.ranks[2], (RankArrivals{2, milliseconds(30 + 30), milliseconds(30)}));
  EXPECT_DOUBLE_EQ(arrivals.last_share(2), 2.0 / 3);
  EXPECT_DOUBLE_EQ(arrivals.cost_share(2), 0.2);
}

TEST(Straggler, NamesTheRankThatStandsOutAndItsCores) {
  auto ranks = ranks_entering({{0, 1, 2, 31}, {0, 1, 2, 33}, {1, 0, 2, 34}});
  ranks[2].cores = {3, 4};
  ranks[0].cores = {3};  // of another host
  const Arrivals arrivals = arrivals_at(ranks, StepPhase::kDecode);
  EXPECT_EQ(straggler(arrivals), 3u);
  EXPECT_EQ(verdict(arrivals, ranks),
            "rank 3 (node1) came last to 100 % of the collectives of decode and cost the others 31 % of its time; it "
            "runs on cores 3, of which rank 2 has some too");
}

TEST(Straggler, NamesNobodyWhereRanksTakeTurns) {
  const auto ranks = ranks_entering({{0, 50}, {50, 0}, {0, 50}, {60, 0}, {0, 40}});
  const Arrivals arrivals = arrivals_at(ranks, StepPhase::kDecode);
  EXPECT_EQ(straggler(arrivals), std::nullopt);
  EXPECT_EQ(verdict(arrivals, ranks), "");
}

TEST(Straggler, NamesNobodyWhereItHardlyMatters) {
  EXPECT_EQ(straggler(arrivals_at(ranks_entering({{0, 1}, {0, 2}, {0, 1}}), StepPhase::kDecode)), std::nullopt);
}

TEST(Straggler, NobodyIsLastWhereTwoAre) {
  const Arrivals arrivals = arrivals_at(ranks_entering({{0, 9, 9}}), StepPhase::kDecode);
  EXPECT_EQ(arrivals.ranks[1].last + arrivals.ranks[2].last, 0);
}

TEST(Straggler, IsSoughtAmongTwoRanksAtLeastAndInThePhaseAlone) {
  EXPECT_EQ(straggler(arrivals_at(ranks_entering({{5}}), StepPhase::kDecode)), std::nullopt);
  const Arrivals prefill = arrivals_at(ranks_entering({{0, 90}}), StepPhase::kPrefill);
  EXPECT_EQ(prefill.collectives, 0);
  EXPECT_EQ(straggler(prefill), std::nullopt);
}

}  // namespace
}  // namespace lockstep::trace
