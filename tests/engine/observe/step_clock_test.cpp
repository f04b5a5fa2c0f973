#include "engine/observe/step_clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/allocation_count.h"

namespace lockstep::observe {
namespace {

using std::chrono::milliseconds;
using trace::StepPhase;

/// Two slots with answers set by the test, which take a millisecond.
class ScriptedEngine final : public shards::StepEngine {
 public:
  explicit ScriptedEngine(ManualClock& clock) : clock_(clock) {}

  std::vector<int32_t> answer;
  std::optional<Error> failure;
  device::DeviceTime of_a_step;  // of the device; counted after `time_device`

  int64_t slots() const override { return 2; }
  int64_t chunk() const override { return 8; }
  int64_t capacity() const override { return 16; }
  int64_t tokens_per_step() const override { return 2; }
  bool rows_of_one_slot() const override { return false; }
  int64_t long_rope_after() const override { return 0; }
  Result<void> open_slot(SlotId, const shards::SlotParameters&) override { return ok(); }
  Result<void> close_slot(SlotId) override { return ok(); }
  Result<shards::StepOutput> prefill(const shards::PrefillRows&, shards::StepTag) override { return output(); }
  Result<shards::StepOutput> decode(shards::StepTag) override { return output(); }
  Result<void> decide(shards::Decision&) override { return ok(); }
  bool all_finished() const override { return false; }
  Result<void> confirm(shards::StepTag) override { return ok(); }
  void request_stop(SlotId) override {}
  void time_device() override { is_timed_ = true; }
  device::DeviceTime device_time() const override { return time_; }

 private:
  Result<shards::StepOutput> output() {
    clock_.advance(milliseconds(1));
    if (failure) return *failure;
    if (is_timed_) time_ += of_a_step;
    return shards::StepOutput{answer, {}};
  }

  ManualClock& clock_;
  bool is_timed_ = false;
  device::DeviceTime time_;
};

class StepClockTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const int slot : {0, 1}) {
      ASSERT_TRUE(clock_of_steps_.open_slot(SlotId(slot), {.max_new_tokens = 5, .eos_ids = {9}}).has_value());
    }
  }
  trace::StepTimes last() const { return clock_of_steps_.steps().back(); }
  void prefill_both() {
    engine_.answer = {3, 4};
    ASSERT_TRUE(clock_of_steps_.prefill(rows_, {0, 0}).has_value());
  }
  int32_t tokens_of_decode(std::vector<int32_t> answer) {
    engine_.answer = std::move(answer);
    EXPECT_TRUE(clock_of_steps_.decode({1, 2}).has_value());
    return last().tokens;
  }

  ManualClock clock_;
  ScriptedEngine engine_{clock_};
  trace::CollectiveLog collectives_{4};
  StepClock clock_of_steps_{engine_, collectives_, clock_, 6};
  const shards::PrefillRows rows_{
      .ids = {1, 2, 3, 4, 5}, .slot = {0, 0, 1, 1, 1}, .position = {0, 1, 0, 1, 2}, .logit_rows = {1, 4}};
};

TEST_F(StepClockTest, NotesRowsSlotsAndTokensOfAPrefill) {
  prefill_both();
  EXPECT_EQ(last(), (trace::StepTimes{StepPhase::kPrefill, 0, 0, 5, 2, 2, TimePoint(), TimePoint(milliseconds(1))}));
}

TEST_F(StepClockTest, NotesTheDevicesPartOfEachStep) {
  using std::chrono::microseconds;
  engine_.of_a_step = {microseconds(700), microseconds(100)};
  prefill_both();
  engine_.of_a_step = {microseconds(500), microseconds(50)};
  EXPECT_EQ(tokens_of_decode({5, 6, 7, -1}), 3);
  EXPECT_EQ(last().on_device, (device::DeviceTime{microseconds(500), microseconds(50)}));
  const trace::StepTotals prefill = clock_of_steps_.totals()[0];
  EXPECT_EQ(prefill.on_device, (device::DeviceTime{microseconds(700), microseconds(100)}));
  EXPECT_EQ(prefill.before_device(), microseconds(200));
}

TEST_F(StepClockTest, CountsNoTokenOfAFinishedSlot) {
  prefill_both();
  EXPECT_EQ(tokens_of_decode({5, 6, 7, -1}), 3);  // the second slot's draft was rejected
  EXPECT_EQ(last().slots, 2);
  EXPECT_EQ(last().rows, 4);
  EXPECT_EQ(last().schedule, 1);
  EXPECT_EQ(last().step, 2);
  EXPECT_EQ(tokens_of_decode({5, 6, 9, 0}), 3);  // its fifth; an end token, then pad
  EXPECT_EQ(tokens_of_decode({0, 0, 0, 0}), 0);
  EXPECT_EQ(last().slots, 0);
}

TEST_F(StepClockTest, KnowsWhatTheHostEndsAndWhatIsClosed) {
  prefill_both();
  shards::Decision decision(2);
  decision.finished[0] = 1;
  ASSERT_TRUE(clock_of_steps_.decide(decision).has_value());
  EXPECT_EQ(tokens_of_decode({1, 1, 1, 1}), 2);
  ASSERT_TRUE(clock_of_steps_.close_slot(SlotId(1)).has_value());
  EXPECT_EQ(tokens_of_decode({1, 1, 1, 1}), 0);
}

TEST_F(StepClockTest, TellsCollectivesTheirPhase) {
  prefill_both();
  collectives_.add(trace::CollectiveKind::kBarrier, 1, 0, clock_.now(), clock_.now());
  EXPECT_EQ(collectives_.entries()[0].phase, StepPhase::kOutside);
}

TEST_F(StepClockTest, CountsAllStepsAlsoThoseThatFindNoRoomAndAllocatesNothing) {
  prefill_both();
  engine_.answer = {1, -1, -1, -1};
  const int64_t before = allocations_of_this_thread();
  for (int i = 0; i < 8; ++i) {
    (void)clock_of_steps_.decode({1, i});
    collectives_.add(trace::CollectiveKind::kBarrier, 1, 0, clock_.now(), clock_.now());
  }
  EXPECT_EQ(allocations_of_this_thread(), before);
  EXPECT_EQ(clock_of_steps_.steps().size(), 6u);
  EXPECT_EQ(clock_of_steps_.dropped(), 3);
  EXPECT_EQ(collectives_.dropped(), 4);
  EXPECT_EQ(clock_of_steps_.totals()[1], (trace::StepTotals{8, 4, milliseconds(8)}));
  clock_of_steps_.restart();
  EXPECT_EQ(clock_of_steps_.totals()[1], trace::StepTotals{});
}

TEST_F(StepClockTest, PassesOnWhatFails) {
  engine_.failure = Error{ErrorKind::kPeerLost, "rank 1 is gone", 1};
  EXPECT_EQ(clock_of_steps_.decode({0, 0}).error(), *engine_.failure);
  EXPECT_TRUE(clock_of_steps_.steps().empty());
}

}  // namespace
}  // namespace lockstep::observe
