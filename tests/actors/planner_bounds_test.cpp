// What bounds on schedules spare the tokens of running requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "actors/planner.h"
#include "tests/actors/replay.h"

namespace lockstep::actors {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The most prefill steps, and the most rows, between two decode steps while a slot decodes.
struct Delay {
  int64_t steps = 0, rows = 0;
};

Delay longest_delay(Planner& planner, Replay& replay) {
  Delay longest, delay;
  while (const auto schedule = planner.next()) {
    for (const auto& rows : schedule->prefills) {
      delay = {delay.steps + 1, delay.rows + std::ssize(rows.ids)};
      longest = {std::max(longest.steps, delay.steps), std::max(longest.rows, delay.rows)};
    }
    if (schedule->decode_steps > 0) delay = {};
    replay.run(*schedule);
  }
  return longest;
}

TEST(Planner, HasEachStepAgreedOnWhileSomeoneReadsAlong) {
  Planner planner(limits(2, 4));
  planner.set_bounds({.decode_steps = 2, .agreement = Agreement::kAfterEachStep});
  planner.add(request(1, 2, 50));
  EXPECT_EQ(planner.next()->agreement, Agreement::kWithNextStep);  // no request wants its tokens at once
  Admission read_along = request(2, 2, 50);
  read_along.delivery = Delivery::kAtOnce;
  planner.add(read_along);
  EXPECT_EQ(planner.next()->agreement, Agreement::kAfterEachStep);
  planner.set_bounds({.decode_steps = 2});
  EXPECT_EQ(planner.next()->agreement, Agreement::kWithNextStep);
}

TEST(Planner, DelaysTheTokensOfOthersByOneShortChunkOfALongPrompt) {
  PlannerLimits spare = limits(3, 16);
  spare.decode_steps = 2;
  spare.rows_beside_decodes = 4;
  Planner planner(spare);
  Replay replay(spare);
  planner.add(request(1, 4, 60));
  planner.add(request(2, 4, 60));
  replay.run(planner.next().value());
  planner.add(request(3, 90, 5));
  const Delay longest = longest_delay(planner, replay);
  EXPECT_EQ(longest.steps, 1);
  EXPECT_EQ(longest.rows, 4);
  EXPECT_EQ(replay.prompts.size(), 3u);
}

TEST(Planner, DecodesTheFirstAnswerBeforeItRunsTheNextPrompt) {
  PlannerLimits spare = limits(2, 4);
  spare.rows_beside_decodes = 2;
  Planner planner(spare);
  planner.add(request(1, 4, 5));
  planner.add(request(2, 9, 5));
  const Schedule first = planner.next().value();
  EXPECT_EQ(first.prefills.size(), 1u);
  EXPECT_EQ(first.decode_steps, 1);
  const Schedule second = planner.next().value();
  ASSERT_EQ(second.prefills.size(), 1u);
  EXPECT_THAT(second.prefills[0].ids, ElementsAre(2000, 2001));
}

TEST(Planner, RunsFullChunksWhileNothingDecodes) {
  PlannerLimits spare = limits(1, 8);
  spare.rows_beside_decodes = 2;
  Planner planner(spare);
  planner.add(request(1, 20, 5));
  const Schedule schedule = planner.next().value();
  ASSERT_EQ(schedule.prefills.size(), 3u);
  EXPECT_EQ(schedule.prefills[0].ids.size(), 8u);
  EXPECT_EQ(schedule.prefills[2].ids.size(), 4u);
}

TEST(Planner, TakesANewBoundFromTheNextScheduleOn) {
  PlannerLimits spare = limits(2, 8);
  spare.rows_beside_decodes = 2;
  Planner planner(spare);
  planner.add(request(1, 2, 90));
  ASSERT_TRUE(planner.next().has_value());
  planner.add(request(2, 20, 5));
  EXPECT_EQ(planner.next()->prefills[0].ids.size(), 2u);
  planner.set_bounds({.prefill_rows = 5, .score_rows = 5, .decode_steps = 32, .prefill_steps = 8});
  EXPECT_EQ(planner.next()->prefills[0].ids.size(), 5u);
}

TEST(Planner, BoundsTheStepsOfASchedule) {
  Planner planner(limits(2, 4));
  planner.set_bounds({.decode_steps = 3, .prefill_steps = 2});
  planner.add(request(1, 20, 50));
  for (const size_t steps : {2u, 2u, 1u}) {
    const Schedule schedule = planner.next().value();
    EXPECT_EQ(schedule.prefills.size(), steps);
    EXPECT_EQ(schedule.decode_steps, steps == 1 ? 3 : 0);
  }
}

TEST(Planner, DelaysTheTokensOfOthersByOneShortStepOfAPromptOrATextInTurn) {
  PlannerLimits spare = limits(3, 16);
  spare.score_rows = 16;
  spare.rows_beside_decodes = 4;
  spare.scores_beside_decodes = 3;
  Planner planner(spare);
  planner.add(request(1, 4, 60));
  ASSERT_TRUE(planner.next().has_value());
  planner.add(request(2, 13, 2));
  Request text{.id = RequestId(3), .ids = std::vector<int32_t>(10, 7), .parameters = {}, .task = Task::kScore};
  planner.add(admit(text, spare).value());
  std::vector<std::string> schedules;
  for (int i = 0; i < 7; ++i) schedules.push_back(to_string(planner.next().value()));
  EXPECT_THAT(schedules, ElementsAre(HasSubstr("open 1 2; score 3 rows; decode 1"),
                                     HasSubstr(": prefill 4 rows; decode 1"), HasSubstr(": score 3 rows; decode 1"),
                                     HasSubstr(": prefill 4 rows; decode 1"), HasSubstr(": score 3 rows; decode 1"),
                                     HasSubstr("prefill 4 rows; decode 1"), HasSubstr("prefill 1 rows; decode 21")));
}

}  // namespace
}  // namespace lockstep::actors
