#include "actors/activity_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::actors {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

TimePoint at(int seconds) { return TimePoint() + std::chrono::seconds(seconds); }

TEST(ActivityRecord, RemembersTheLastStepsWithTheirNumbers) {
  ActivityRecord record;
  EXPECT_THAT(record.read().steps, IsEmpty());
  const int count = static_cast<int>(ActivityRecord::kSteps) + 3;
  for (int step = 1; step <= count; ++step) record.note({Phase::kDecode, step, at(step), at(step + 2)});
  const trace::Activity activity = record.read();
  ASSERT_THAT(activity.steps, SizeIs(ActivityRecord::kSteps));
  EXPECT_EQ(activity.steps.front().number, 4);
  EXPECT_EQ(activity.steps.back(),
            (trace::StepActivity{count, "decode", count, std::chrono::seconds(2), at(count + 2)}));
  ASSERT_THAT(record.read(2).steps, SizeIs(2));
  EXPECT_EQ(record.read(2).steps.front().number, count - 1);
  EXPECT_THAT(record.read(0).steps, IsEmpty());
}

TEST(ActivityRecord, GivesEveryStepOnceToAReaderThatFollows) {
  ActivityRecord record;
  int64_t seen = 0;
  EXPECT_THAT(record.steps_after(seen), IsEmpty());
  record.note({Phase::kPrefill, 4, at(0), at(1)});
  record.note({Phase::kDecode, 1, at(1), at(2)});
  ASSERT_THAT(record.steps_after(seen), SizeIs(2));
  EXPECT_THAT(record.steps_after(seen), IsEmpty());
  for (size_t step = 0; step < ActivityRecord::kSteps + 9; ++step) record.note({Phase::kDecode, 2, at(2), at(3)});
  EXPECT_THAT(record.steps_after(seen), SizeIs(ActivityRecord::kSteps));
  EXPECT_EQ(seen, 2 + static_cast<int64_t>(ActivityRecord::kSteps) + 9);
}

TEST(ActivityRecord, GivesTheLatestSlotsAndRanks) {
  ActivityRecord record;
  record.set_slots({{.use = trace::SlotUse::kKept, .tokens = 5}});
  record.set_slots({{.use = trace::SlotUse::kDecode, .request = RequestId(3), .tokens = 7, .new_tokens = 2}, {}});
  record.set_ranks({{.state = "ready", .resident = Bytes(9)}});
  const trace::Activity activity = record.read();
  ASSERT_THAT(activity.slots, SizeIs(2));
  EXPECT_EQ(activity.slots[0].request, RequestId(3));
  EXPECT_EQ(activity.slots[1], trace::SlotActivity());
  ASSERT_THAT(activity.ranks, SizeIs(1));
  EXPECT_EQ(activity.ranks[0].resident, Bytes(9));
}

}  // namespace
}  // namespace lockstep::actors
