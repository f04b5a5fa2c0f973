#include "runtime/trace/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/trace/timelines.h"

namespace lockstep::trace {
namespace {

using ::testing::HasSubstr;

TEST(FixedLog, KeepsWhatItHasRoomForAndCountsTheRest) {
  FixedLog<int> log(2);
  const int* const room = log.entries().data();
  for (int i = 0; i < 5; ++i) log.add(i);
  EXPECT_THAT(log.entries(), ::testing::ElementsAre(0, 1));
  EXPECT_EQ(log.entries().data(), room);
  EXPECT_EQ(log.dropped(), 3);
  log.clear();
  EXPECT_TRUE(log.entries().empty());
  EXPECT_EQ(log.dropped(), 0);
}

TEST(CollectiveLog, CountsAlsoWhatFindsNoRoom) {
  CollectiveLog log(1);
  log.set_phase(StepPhase::kDecode);
  log.add(CollectiveKind::kAllReduce, 1, 10, at(0), at(3));
  log.add(CollectiveKind::kAllGather, 2, 20, at(5), at(9));
  ASSERT_EQ(log.entries().size(), 1u);
  EXPECT_EQ(log.entries()[0], (CollectiveTimes{CollectiveKind::kAllReduce, StepPhase::kDecode, 1, 10, at(0), at(3)}));
  EXPECT_EQ(log.dropped(), 1);
  EXPECT_EQ(log.totals()[1], (CollectiveTotals{2, 30, std::chrono::milliseconds(4)}));
  log.clear();
  EXPECT_EQ(log.totals()[1], CollectiveTotals{});
}

TEST(Timeline, TravelsAsBytes) {
  RankTimeline timeline = two_ranks()[1];
  timeline.dropped_steps = 3;
  timeline.dropped_collectives = 5;
  timeline.pings_at_begin = {{at(1), at(2)}};
  timeline.pings_at_end = {{at(3), at(4)}, {at(5), at(7)}};
  timeline.clock_error = std::chrono::microseconds(9);
  EXPECT_EQ(unpack_timeline(pack(timeline)).value(), timeline);
}

TEST(Timeline, RefusesBytesThatAreNone) {
  const std::string bytes = pack(two_ranks()[0]);
  std::string huge = bytes;
  huge[6] = '\x7f';  // a count beyond the data
  RankTimeline unknown = two_ranks()[0];
  unknown.steps.push_back({.phase = static_cast<StepPhase>(9)});
  for (const std::string& other :
       {std::string(), std::string("short"), bytes + "x", bytes.substr(0, 90), huge, pack(unknown)}) {
    const auto unpacked = unpack_timeline(other);
    ASSERT_FALSE(unpacked.has_value()) << other.size();
    EXPECT_EQ(unpacked.error().kind, ErrorKind::kInternal);
    EXPECT_THAT(unpacked.error().message, HasSubstr("timeline"));
  }
}

}  // namespace
}  // namespace lockstep::trace
