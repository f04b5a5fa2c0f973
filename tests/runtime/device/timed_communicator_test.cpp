#include "runtime/device/timed_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::device {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TimePoint at(int ms) { return TimePoint(milliseconds(ms)); }

/// Takes a given time for every collective, and fails when told to.
class SlowCommunicator final : public Communicator {
 public:
  SlowCommunicator(ManualClock& clock, Duration each) : clock_(clock), each_(each) {}

  int rank() const override { return 1; }
  int size() const override { return 3; }
  std::string name() const override { return "slow"; }
  Result<void> all_reduce(const TreeSum&, std::span<const float>, std::span<float> dst, Stream) override {
    dst[0] = 7.0f;
    return pass("all_reduce");
  }
  Result<void> all_gather(std::span<const std::byte>, std::span<const int64_t>, std::span<std::byte>, Stream) override {
    return pass("all_gather");
  }
  Result<void> broadcast(std::span<std::byte>, int root, Stream) override {
    root_ = root;
    return pass("broadcast");
  }
  Result<void> barrier(Stream) override { return pass("barrier"); }
  OperationMark last_operation() const override { return mark_; }

  std::optional<Error> failure;
  int root_ = -1;

 private:
  Result<void> pass(const char* operation) {
    mark_ = {operation, mark_.sequence + 1, 0};
    clock_.advance(each_);
    if (failure) return *failure;
    return ok();
  }

  ManualClock& clock_;
  Duration each_;
  OperationMark mark_;
};

class TimedCommunicatorTest : public ::testing::Test {
 protected:
  ManualClock clock_;
  SlowCommunicator inner_{clock_, milliseconds(3)};
};

TEST_F(TimedCommunicatorTest, NotesWhenEachCollectiveWasEnteredAndLeft) {
  TimedCommunicator timed(inner_, clock_, 8);
  const TreeSum sum(BlockSplit{{0, 1, 2, 3}});
  std::vector<float> roots(4), dst(4);
  timed.set_tag(5);
  ASSERT_TRUE(timed.all_reduce(sum, roots, dst, Stream::host()).has_value());
  clock_.advance(milliseconds(10));
  timed.set_tag(6);
  std::vector<std::byte> bytes(4);
  ASSERT_TRUE(timed.broadcast(bytes, 2, Stream::host()).has_value());
  EXPECT_THAT(timed.times(), ElementsAre(CollectiveTimes{5, at(0), at(3)}, CollectiveTimes{6, at(13), at(16)}));
  EXPECT_EQ(dst[0], 7.0f);
  EXPECT_EQ(inner_.root_, 2);
  timed.restart();
  EXPECT_THAT(timed.times(), IsEmpty());
}

TEST_F(TimedCommunicatorTest, IsOtherwiseTheOneBehindIt) {
  TimedCommunicator timed(inner_, clock_, 8);
  EXPECT_EQ(timed.rank(), 1);
  EXPECT_EQ(timed.size(), 3);
  EXPECT_EQ(timed.name(), "slow");
  ASSERT_TRUE(timed.all_gather({}, {}, {}, Stream::host()).has_value());
  EXPECT_STREQ(timed.last_operation().operation, "all_gather");
  inner_.failure = Error{ErrorKind::kPeerLost, "rank 2 is gone", 2};
  EXPECT_EQ(timed.barrier(Stream::host()).error(), *inner_.failure);
}

TEST_F(TimedCommunicatorTest, DropsWhatFindsNoRoomAndSaysHowMuch) {
  TimedCommunicator timed(inner_, clock_, 2);
  const auto room = timed.times().data();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(timed.barrier(Stream::host()).has_value());
  EXPECT_EQ(timed.times().size(), 2u);
  EXPECT_EQ(timed.dropped(), 3);
  EXPECT_EQ(timed.times().data(), room);  // nothing was allocated
  timed.restart();
  EXPECT_EQ(timed.dropped(), 0);
}

TEST(SplitTimes, WaitsUntilTheLastRankHasCome) {
  const CollectiveTimes own[] = {{0, at(0), at(10)}, {0, at(20), at(25)}};
  const TimePoint last[] = {at(7), at(20)};  // the second collective: this rank was the last
  EXPECT_EQ(split_times(own, last, 0), (CollectiveSplit{milliseconds(7), milliseconds(3 + 5)}));
}

TEST(SplitTimes, CountsOnlyTheTagThatWasAskedFor) {
  const CollectiveTimes own[] = {{0, at(0), at(10)}, {1, at(20), at(25)}, {-1, at(30), at(90)}};
  const TimePoint last[] = {at(4), at(23), at(80)};
  EXPECT_EQ(split_times(own, last, 0), (CollectiveSplit{milliseconds(4), milliseconds(6)}));
  EXPECT_EQ(split_times(own, last, 1), (CollectiveSplit{milliseconds(3), milliseconds(2)}));
  EXPECT_EQ(split_times(own, last, 2), CollectiveSplit{});
}

TEST(SplitTimes, NeverWaitsLongerThanTheRankWasInside) {
  const CollectiveTimes own[] = {{0, at(10), at(12)}};
  const TimePoint later[] = {at(50)}, earlier[] = {at(1)};  // a broadcast's root need not wait for anybody
  EXPECT_EQ(split_times(own, later, 0), (CollectiveSplit{milliseconds(2), {}}));
  EXPECT_EQ(split_times(own, earlier, 0), (CollectiveSplit{{}, milliseconds(2)}));
}

}  // namespace
}  // namespace lockstep::device
