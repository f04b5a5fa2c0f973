#include "actors/step_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::actors {
namespace {

Duration ms(double milliseconds) { return duration_of(milliseconds / 1e3); }

double estimated_ms(const StepTimes& times, size_t size, double floor_ms) {
  return 1e3 * times.estimate(size, floor_ms / 1e3);
}

TEST(StepTimes, EstimatesBetweenMeasuredSizesAndTheStepOfFewRows) {
  StepTimes times({16, 32, 64, 128});
  EXPECT_FALSE(times.is_measured());
  times.note(32, ms(20));
  times.note(100, ms(68));  // counts for 128
  EXPECT_TRUE(times.is_measured());
  EXPECT_NEAR(estimated_ms(times, 0, 4.5), 12, 0.01);  // half the way from a row, 4.5 ms, to 32 rows
  EXPECT_NEAR(estimated_ms(times, 1, 4.5), 20, 0.01);
  EXPECT_NEAR(estimated_ms(times, 2, 4.5), 36, 0.01);
  EXPECT_NEAR(estimated_ms(times, 3, 4.5), 68, 0.01);
}

TEST(StepTimes, ContinuesTheLineBeyondTheLargestMeasuredSize) {
  StepTimes times({16, 32, 64});
  times.note(16, ms(20));
  EXPECT_NEAR(estimated_ms(times, 2, 5), 68, 0.01);   // 1 ms a row from 5 ms on
  EXPECT_NEAR(estimated_ms(times, 2, 30), 20, 0.01);  // never shorter than a smaller step
}

TEST(StepTimes, SmoothsAndLiftsAllSizesWhenSequencesHaveGrown) {
  StepTimes times({16, 32});
  times.note(16, ms(10));
  times.note(32, ms(18));
  for (int step = 0; step < 40; ++step) times.note(32, ms(36));
  EXPECT_NEAR(estimated_ms(times, 1, 5), 36, 0.1);
  EXPECT_NEAR(estimated_ms(times, 0, 5), 20, 0.1);
  times.note(32, ms(72));  // one slow step is not yet the rule
  EXPECT_NEAR(estimated_ms(times, 1, 5), 45, 0.1);
}

PlannerLimits limits() { return {.slots = 2, .chunk = 256, .score_rows = 48, .chunk_sizes = {16, 32, 64, 128, 256}}; }

TEST(ScheduleTiming, BeginsWithShortStepsAndSchedules) {
  for (const Duration budget : {Duration::zero(), ms(1000)}) {
    EXPECT_EQ(ScheduleTiming(limits(), budget, 2).bounds(), (ScheduleBounds{32, 32, 4, 1}));
  }
  EXPECT_EQ(ScheduleTiming({.chunk = 256}, ms(1), 2).bounds(), (ScheduleBounds{256, 1, 4, 1}));  // it has one size
}

TEST(ScheduleTiming, TakesTheLargestSizeThatFitsFourDecodeSteps) {
  ScheduleTiming timing(limits(), Duration::zero(), 2);
  timing.note_decode(ms(10));
  timing.note_prefill(128, ms(60));
  timing.note_prefill(64, ms(35));
  EXPECT_EQ(timing.bounds().prefill_rows, 64);
  timing.note_prefill(256, ms(400));
  timing.note_decode(ms(40));  // the mean is 17.5 ms now
  EXPECT_EQ(timing.bounds().prefill_rows, 128);
}

TEST(ScheduleTiming, TakesTheSmallestSizeWhenNoneFits) {
  ScheduleTiming timing(limits(), ms(1), 2);
  timing.note_decode(ms(10));
  timing.note_prefill(64, ms(500));
  EXPECT_EQ(timing.bounds().prefill_rows, 16);
  EXPECT_EQ(timing.bounds().decode_steps, 1);
  EXPECT_EQ(timing.bounds().prefill_steps, 1);
}

TEST(ScheduleTiming, TakesTheLargestSizeWhereFewerRowsCostAsMuch) {
  ScheduleTiming timing(limits(), ms(1), 2);
  timing.note_decode(ms(10));
  for (const int64_t rows : {16, 32, 64, 128, 256}) timing.note_prefill(rows, ms(100));
  EXPECT_EQ(timing.bounds().prefill_rows, 256);
}

TEST(ScheduleTiming, MeasuresScoreStepsApartFromPrefillSteps) {
  ScheduleTiming timing(limits(), ms(40), 2);
  timing.note_prefill(256, ms(20));
  timing.note_score(32, ms(50));
  EXPECT_EQ(timing.bounds().prefill_rows, 256);
  EXPECT_EQ(timing.bounds().score_rows, 16);
  timing.note_score(48, ms(30));
  EXPECT_EQ(timing.bounds().score_rows, 48);
}

TEST(ScheduleTiming, LetsTheSchedulesInFlightTakeAsLongAsTheBudget) {
  ScheduleTiming timing(limits(), ms(80), 2);
  timing.note_decode(ms(5));
  timing.note_prefill(256, ms(12));
  EXPECT_EQ(timing.bounds().decode_steps, 8);  // 40 ms
  EXPECT_EQ(timing.bounds().prefill_steps, 3);
  ScheduleTiming fast(limits(), Duration::zero(), 2);
  fast.note_decode(ms(0.1));
  EXPECT_EQ(fast.bounds().decode_steps, 32);  // what limits allow, since a schedule has its price
  EXPECT_EQ(timing.bounds().agreement, Agreement::kAfterEachStep);
  EXPECT_EQ(fast.bounds().agreement, Agreement::kWithNextStep);  // an exchange of its own has a price too
}

}  // namespace
}  // namespace lockstep::actors
