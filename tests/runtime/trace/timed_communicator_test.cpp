#include "runtime/trace/timed_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/trace/timelines.h"

namespace lockstep::trace {
namespace {

using device::Communicator, device::OperationMark, device::Stream, device::TreeSum;
using std::chrono::milliseconds;
using ::testing::ElementsAre;

/// Takes a given time for every collective, and fails on request.
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
  CollectiveLog log_{8};
  TimedCommunicator timed_{inner_, clock_, log_};
};

TEST_F(TimedCommunicatorTest, NotesWhatEachCollectiveWasAndWhen) {
  const TreeSum sum(BlockSplit{{0, 1, 2, 3}});
  std::vector<float> roots(4), dst(4);
  log_.set_phase(StepPhase::kPrefill);
  ASSERT_TRUE(timed_.all_reduce(sum, roots, dst, Stream::host()).has_value());
  clock_.advance(milliseconds(10));
  log_.set_phase(StepPhase::kDecode);
  std::vector<std::byte> bytes(4);
  ASSERT_TRUE(timed_.broadcast(bytes, 2, Stream::host()).has_value());  // of another rank: nothing is contributed
  ASSERT_TRUE(timed_.all_gather(bytes, {}, {}, Stream::host()).has_value());
  ASSERT_TRUE(timed_.barrier(Stream::host()).has_value());
  EXPECT_THAT(log_.entries(),
              ElementsAre(CollectiveTimes{CollectiveKind::kAllReduce, StepPhase::kPrefill, 1, 16, at(0), at(3)},
                          CollectiveTimes{CollectiveKind::kBroadcast, StepPhase::kDecode, 2, 0, at(13), at(16)},
                          CollectiveTimes{CollectiveKind::kAllGather, StepPhase::kDecode, 3, 4, at(16), at(19)},
                          CollectiveTimes{CollectiveKind::kBarrier, StepPhase::kDecode, 4, 0, at(19), at(22)}));
  EXPECT_EQ(dst[0], 7.0f);
  EXPECT_EQ(inner_.root_, 2);
}

TEST_F(TimedCommunicatorTest, IsOtherwiseTheOneBehindIt) {
  EXPECT_EQ(timed_.rank(), 1);
  EXPECT_EQ(timed_.size(), 3);
  EXPECT_EQ(timed_.name(), "slow");
  ASSERT_TRUE(timed_.all_gather({}, {}, {}, Stream::host()).has_value());
  EXPECT_STREQ(timed_.last_operation().operation, "all_gather");
  inner_.failure = Error{ErrorKind::kPeerLost, "rank 2 is gone", 2};
  EXPECT_EQ(timed_.barrier(Stream::host()).error(), *inner_.failure);
}

}  // namespace
}  // namespace lockstep::trace
