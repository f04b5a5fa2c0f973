#include "runtime/trace/clock_alignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/trace/timelines.h"

namespace lockstep::trace {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TimePoint us(int64_t value) { return TimePoint(microseconds(value)); }

/// An exchange in true time: both enter, and each leaves so long after the other has entered.
struct Exchange {
  int64_t first_enters, other_enters, to_first, to_other;  // microseconds
};

/// The other rank's clock reads `offset` less than the first's.
std::pair<Ping, Ping> seen(const Exchange& e, int64_t offset) {
  const int64_t first_leaves = std::max(e.first_enters, e.other_enters + e.to_first);
  const int64_t other_leaves = std::max(e.other_enters, e.first_enters + e.to_other);
  return {{us(e.first_enters), us(first_leaves)}, {us(e.other_enters - offset), us(other_leaves - offset)}};
}

ClockOffset offset_of(const std::vector<Exchange>& exchanges, int64_t offset) {
  std::vector<Ping> first, own;
  for (const Exchange& exchange : exchanges) {
    const auto [a, b] = seen(exchange, offset);
    first.push_back(a);
    own.push_back(b);
  }
  return offset_by(first, own);
}

TEST(ClockAlignment, FindsTheOffsetBetweenTwoClocks) {
  const ClockOffset found = offset_of({{1000, 1000, 50, 50}}, 123456);
  EXPECT_EQ(found.value, microseconds(123456));
  EXPECT_EQ(found.error, microseconds(50));
}

TEST(ClockAlignment, TakesTheNarrowestRound) {
  const ClockOffset found = offset_of({{0, 900, 800, 40}, {2000, 2003, 20, 30}, {4000, 4100, 900, 950}}, -7000);
  EXPECT_LE(found.error, microseconds(25));
  EXPECT_NEAR(static_cast<double>(found.value.count()), -7000e3, 25e3);
}

TEST(ClockAlignment, NeverErrsByMoreThanItSays) {
  for (const int64_t offset : {-5'000'000, 0, 31, 88'000'000}) {
    for (const Exchange& e : std::vector<Exchange>{
             {0, 0, 10, 500}, {0, 0, 500, 10}, {0, 300, 10, 20}, {300, 0, 10, 20}, {0, 300, 700, 20}, {5, 0, 3, 900}}) {
      const ClockOffset found = offset_of({e}, offset);
      const Duration off = found.value - microseconds(offset);
      EXPECT_LE(std::max(off, -off), found.error) << offset << " " << e.first_enters << " " << e.to_first;
    }
  }
}

TEST(ClockAlignment, FollowsAClockThatDrifts) {
  const ClockOffset begin{.at = at(0), .value = microseconds(100)}, end{.at = at(1000), .value = microseconds(300)};
  EXPECT_EQ(on_first_clock(at(0), begin, end), at(0) + microseconds(100));
  EXPECT_EQ(on_first_clock(at(500), begin, end), at(500) + microseconds(200));
  EXPECT_EQ(on_first_clock(at(1000), begin, end), at(1000) + microseconds(300));
  EXPECT_EQ(on_first_clock(at(-500), begin, end), at(-500) + microseconds(100));  // start-up, before the comparison
  EXPECT_EQ(on_first_clock(at(7), begin, begin), at(7) + microseconds(100));      // one comparison
}

TEST(ClockAlignment, MovesTheRanksOfOtherHostsOnly) {
  std::vector<RankTimeline> ranks = two_ranks();
  const std::vector<RankTimeline> expected = ranks;
  for (RankTimeline& rank : ranks) {
    rank.pings_at_begin = {{at(50), at(52)}};
    rank.pings_at_end = {{at(250), at(252)}};
  }
  std::vector<RankTimeline> same_host = ranks;
  same_host[1].pings_at_begin = {{at(90), at(92)}};  // its clock is not used
  align(same_host);
  EXPECT_EQ(same_host[1].steps, expected[1].steps);

  ranks[1].host = "node2";
  const Duration offset = milliseconds(1000);
  for (PhaseSpan& each : ranks[1].phases) each.begin -= offset, each.end -= offset;
  for (StepTimes& each : ranks[1].steps) each.begin -= offset, each.end -= offset;
  for (CollectiveTimes& each : ranks[1].collectives) each.enter -= offset, each.leave -= offset;
  for (auto* pings : {&ranks[1].pings_at_begin, &ranks[1].pings_at_end}) {
    for (Ping& each : *pings) each.enter -= offset, each.leave -= offset;
  }
  align(ranks);
  EXPECT_EQ(ranks[1].steps, expected[1].steps);
  EXPECT_EQ(ranks[1].collectives, expected[1].collectives);
  EXPECT_EQ(ranks[1].phases, expected[1].phases);
  EXPECT_EQ(ranks[1].clock_error, milliseconds(2));
  EXPECT_EQ(ranks[0].clock_error, Duration{});
}

}  // namespace
}  // namespace lockstep::trace
