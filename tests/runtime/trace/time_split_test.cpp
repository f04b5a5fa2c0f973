#include "runtime/trace/time_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/trace/rank_report.h"
#include "tests/runtime/trace/timelines.h"

namespace lockstep::trace {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;

auto is_split(double compute, double communication, double waiting) {
  return AllOf(Field(&PhaseSplit::compute_s, DoubleNear(compute, 1e-12)),
               Field(&PhaseSplit::communication_s, DoubleNear(communication, 1e-12)),
               Field(&PhaseSplit::waiting_s, DoubleNear(waiting, 1e-12)));
}

RankTimeline rank_with(std::vector<CollectiveTimes> collectives, Duration decode) {
  RankTimeline rank;
  rank.collectives = std::move(collectives);
  rank.step_totals[1] = {1, 1, decode};
  return rank;
}

TEST(TimeSplit, WaitsUntilTheLastRankHasCome) {
  const RankTimeline rank =
      rank_with({collective(StepPhase::kDecode, 0, 10), collective(StepPhase::kDecode, 20, 25)}, milliseconds(30));
  const TimePoint last[] = {at(7), at(20)};  // the second collective: this rank was the last
  EXPECT_THAT(split_of(rank, last, StepPhase::kDecode), is_split(0.015, 0.008, 0.007));
}

TEST(TimeSplit, CountsOnlyThePhaseThatWasAskedFor) {
  RankTimeline rank = rank_with({collective(StepPhase::kPrefill, 0, 10), collective(StepPhase::kDecode, 20, 25),
                                 collective(StepPhase::kOutside, 30, 90)},
                                milliseconds(6));
  rank.step_totals[0] = {1, 1, milliseconds(12)};
  const TimePoint last[] = {at(4), at(23), at(80)};
  EXPECT_THAT(split_of(rank, last, StepPhase::kPrefill), is_split(0.002, 0.006, 0.004));
  EXPECT_THAT(split_of(rank, last, StepPhase::kDecode), is_split(0.001, 0.002, 0.003));
}

TEST(TimeSplit, NeverWaitsLongerThanTheRankWasInside) {
  const CollectiveTimes own = collective(StepPhase::kDecode, 10, 12);
  EXPECT_EQ(all_there(own, at(50)), at(12));
  EXPECT_EQ(all_there(own, at(1)), at(10));  // a broadcast's root need not wait for anybody
}

TEST(TimeSplit, CountsWhatFoundNoRoomAsCommunication) {
  RankTimeline rank = rank_with({collective(StepPhase::kDecode, 0, 10)}, milliseconds(30));
  rank.collective_totals[1] = {3, 0, milliseconds(12)};
  const TimePoint last[] = {at(7)};
  EXPECT_THAT(split_of(rank, last, StepPhase::kDecode), is_split(0.008, 0.015, 0.007));
  EXPECT_THAT(split_of(rank, {}, StepPhase::kDecode), is_split(0.008, 0.022, 0.0));  // another rank recorded none
}

TEST(TimeSplit, ComparesWhatAllRanksRecorded) {
  std::vector<RankTimeline> ranks = two_ranks();
  ranks[1].collectives.pop_back();
  EXPECT_THAT(last_entries(ranks), ElementsAre(at(94), at(124), at(146)));
}

TEST(TimeSplit, DividesAPhaseOfTheProcessByItsExchanges) {
  const std::vector<RankTimeline> ranks = two_ranks();
  const auto last = last_entries(ranks);
  EXPECT_THAT(split_of(ranks[0], last, ranks[0].phases[0]), is_split(0.094, 0.002, 0.004));
  EXPECT_THAT(split_of(ranks[1], last, ranks[1].phases[0]), is_split(0.098, 0.002, 0.0));
}

TEST(TotalsOfSteps, CountWhatLiesBetweenTwoStepsOfOnePhase) {
  std::vector<StepTimes> steps;
  const auto add = [&](StepPhase phase, int begin, int end) {
    steps.push_back({.phase = phase, .tokens = 2, .begin = at(begin), .end = at(end)});
  };
  add(StepPhase::kPrefill, 5, 10);
  add(StepPhase::kPrefill, 11, 20);
  add(StepPhase::kDecode, 30, 34);
  add(StepPhase::kDecode, 36, 40);
  add(StepPhase::kPrefill, 50, 57);
  EXPECT_EQ(totals_of(steps, StepPhase::kPrefill), (StepTotals{.steps = 3, .tokens = 6, .time = milliseconds(15 + 7)}));
  EXPECT_EQ(totals_of(steps, StepPhase::kDecode), (StepTotals{.steps = 2, .tokens = 4, .time = milliseconds(10)}));
}

TEST(TotalsOfSteps, LeaveOutStepsOfFewerSlots) {
  std::vector<StepTimes> steps;
  const auto add = [&](int32_t slots, int begin, int end) {
    steps.push_back({.phase = StepPhase::kDecode, .slots = slots, .tokens = slots, .begin = at(begin), .end = at(end)});
  };
  add(1, 0, 5);
  add(3, 6, 10);  // the time before it belongs to the smaller step
  add(3, 12, 20);
  add(2, 21, 30);
  add(3, 31, 33);
  EXPECT_EQ(totals_of(steps, StepPhase::kDecode, 3),
            (StepTotals{.steps = 3, .tokens = 9, .time = milliseconds(14 + 2)}));
  EXPECT_EQ(totals_of(steps, StepPhase::kDecode, 4), StepTotals{});
}

TEST(RankReport, TellsEveryRankByPhase) {
  std::vector<RankTimeline> ranks = two_ranks();
  ranks[1].phases.push_back({"load", at(200), at(210)});  // entered again: it continues
  const GroupReport report = report_of(ranks);
  ASSERT_EQ(report.ranks.size(), 2u);
  const RankReport& first = report.ranks[0];
  EXPECT_THAT(first.prefill.split, is_split(0.014, 0.002, 0.004));
  EXPECT_THAT(first.decode.split, is_split(0.008, 0.004, 0.008));
  EXPECT_THAT(report.ranks[1].decode.split, is_split(0.016, 0.004, 0.0));
  EXPECT_EQ(first.decode.steps, (StepTotals{2, 4, milliseconds(20)}));
  EXPECT_EQ(first.decode.collectives.bytes, 128u);
  EXPECT_EQ(report.ranks[1].decode.last_share, 1.0);
  ASSERT_EQ(report.ranks[1].phases.size(), 2u);
  EXPECT_NEAR(report.ranks[1].phases[0].second.total_s(), 0.110, 1e-12);
  EXPECT_THAT(report.stragglers, ElementsAre(HasSubstr("of prefill"), HasSubstr("of decode")));
  const std::string table = to_table(report);
  EXPECT_THAT(table, HasSubstr("   1  node1         decode        0.0200    0.0160         0.0040    0.0000    100 %"));
  EXPECT_THAT(table, HasSubstr("rank 1 (node1) came last"));
}

TEST(RankReport, TellsTheDevicesPartOfSteps) {
  std::vector<RankTimeline> ranks = two_ranks();
  const size_t decode = static_cast<size_t>(StepPhase::kDecode);
  ranks[1].step_totals[decode].on_device = {milliseconds(12), milliseconds(2)};  // of 2 steps, 20 ms
  const std::string table = to_table(report_of(ranks));
  EXPECT_THAT(table,
              HasSubstr("   1  node1           device      0.0120   us a step: 6000.0 device, 3000.0 host before "
                        "it, 1000.0 after"));
  EXPECT_THAT(table, Not(HasSubstr("   0  node1           device")));
}

TEST(RankReport, SaysWhatFoundNoRoom) {
  std::vector<RankTimeline> ranks = two_ranks();
  ranks[0].dropped_collectives = 12;
  EXPECT_THAT(to_table(report_of(ranks)), HasSubstr("rank 0: 12 collectives and 0 steps found no room"));
}

}  // namespace
}  // namespace lockstep::trace
