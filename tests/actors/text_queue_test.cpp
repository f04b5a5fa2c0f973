#include "actors/text_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/planner.h"

namespace lockstep::actors {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

PlannerLimits limits(int64_t rows) { return {.slots = 2, .chunk = 16, .capacity = 8, .score_rows = rows}; }

Request text(int64_t id, std::vector<int32_t> ids) {
  return {.id = RequestId(id), .ids = std::move(ids), .parameters = {}, .task = Task::kScore};
}

TEST(TextQueue, MakesARowOfEveryTokenThatHasANextOne) {
  TextQueue queue(limits(3));
  queue.add(SlotId(1), {10, 11, 12, 13, 14});
  queue.add(SlotId(0), {20, 21, 22});
  const auto first = queue.next_step(8);
  EXPECT_THAT(first.ids, ElementsAre(10, 11, 12));
  EXPECT_THAT(first.targets, ElementsAre(11, 12, 13));
  EXPECT_THAT(first.position, ElementsAre(0, 1, 2));
  EXPECT_TRUE(queue.has(SlotId(1)));
  const auto second = queue.next_step(8);
  EXPECT_THAT(second.ids, ElementsAre(13, 20, 21));
  EXPECT_THAT(second.slot, ElementsAre(1, 0, 0));
  EXPECT_THAT(second.position, ElementsAre(3, 0, 1));
  EXPECT_THAT(second.targets, ElementsAre(14, 21, 22));
  EXPECT_TRUE(queue.is_empty());
}

TEST(TextQueue, KeepsTheRowsOfOneSlotTogetherWhereABackendWantsIt) {
  PlannerLimits one_slot = limits(8);
  one_slot.rows_of_one_slot = true;
  TextQueue queue(one_slot);
  queue.add(SlotId(0), {1, 2, 3});
  queue.add(SlotId(1), {4, 5});
  EXPECT_THAT(queue.next_step(8).slot, ElementsAre(0, 0));
  EXPECT_THAT(queue.next_step(8).slot, ElementsAre(1));
}

TEST(TextQueue, ForgetsADroppedText) {
  TextQueue queue(limits(2));
  queue.add(SlotId(0), {1, 2, 3, 4});
  queue.add(SlotId(1), {5, 6});
  EXPECT_THAT(queue.next_step(8).ids, ElementsAre(1, 2));
  queue.drop(SlotId(0));
  EXPECT_THAT(queue.next_step(8).ids, ElementsAre(5));
  EXPECT_TRUE(queue.is_empty());
}

TEST(Planner, ScoresTextsBesideDecodingAndClosesTheirSlots) {
  const PlannerLimits two_rows = limits(2);
  Planner planner(two_rows);
  Request prompt{.id = RequestId(1), .ids = {1, 2}, .parameters = {.sampling = {}, .max_new_tokens = 7, .eos_ids = {}}};
  planner.add(admit(prompt, two_rows).value());
  planner.add(admit(text(2, {3, 4, 5, 6}), two_rows).value());
  planner.add(admit(text(3, {7, 8}), two_rows).value());
  const Schedule first = planner.next().value();
  ASSERT_EQ(first.scores.size(), 2u);  // rows 3 4 | 5
  EXPECT_THAT(first.scores[1].targets, ElementsAre(6));
  EXPECT_EQ(first.decode_steps, 3);  // a text waits for the slot that is free then
  EXPECT_TRUE(planner.expects(RequestId(1)));
  EXPECT_FALSE(planner.expects(RequestId(2)));
  const Schedule second = planner.next().value();
  EXPECT_THAT(second.closed, ElementsAre(SlotId(1)));
  ASSERT_EQ(second.scores.size(), 1u);
  EXPECT_THAT(second.scores[0].ids, ElementsAre(7));
  EXPECT_THAT(second.scores[0].slot, ElementsAre(1));
  EXPECT_FALSE(planner.expects(RequestId(3)));
}

TEST(Planner, TakesTurnsWithTextsThatRemain) {
  PlannerLimits slow = limits(1);
  slow.prefill_steps = 2;
  Planner planner(slow);
  Request prompt{.id = RequestId(1), .ids = {1, 2}, .parameters = {.sampling = {}, .max_new_tokens = 7, .eos_ids = {}}};
  planner.add(admit(prompt, slow).value());
  planner.add(admit(text(2, {3, 4, 5, 6, 7, 8}), slow).value());
  const Schedule first = planner.next().value();
  EXPECT_EQ(first.scores.size(), 2u);
  EXPECT_EQ(first.decode_steps, 3);  // as many as there were steps of prompts and texts
  EXPECT_EQ(to_string(first), "schedule 0: open 0 1; prefill 2 rows; score 1+1 rows; decode 3");
}

TEST(Admission, RefusesATextThatCannotBeScored) {
  const auto refused = [](std::vector<int32_t> ids, const PlannerLimits& by) {
    return admit(text(1, std::move(ids)), by).error();
  };
  EXPECT_EQ(refused({1, 2}, limits(0)).kind, ErrorKind::kUnsupported);
  EXPECT_THAT(refused({1}, limits(4)).message, HasSubstr("a text of 1 tokens, expected at least 2"));
  EXPECT_THAT(refused({1, -2}, limits(4)).message, HasSubstr("found token id -2 at index 1"));
  EXPECT_THAT(refused(std::vector<int32_t>(10, 1), limits(4)).message, HasSubstr("expected at most 9"));
  EXPECT_TRUE(admit(text(1, std::vector<int32_t>(9, 1)), limits(4)).has_value());
}

TEST(Admission, TurnsALongTextByTheLongFactors) {
  PlannerLimits longrope = limits(4);
  longrope.long_rope_after = 5;
  EXPECT_FALSE(admit(text(1, {1, 2, 3, 4, 5}), longrope).value().rows[0].parameters.long_rope);
  EXPECT_TRUE(admit(text(1, {1, 2, 3, 4, 5, 6}), longrope).value().rows[0].parameters.long_rope);
}

}  // namespace
}  // namespace lockstep::actors
