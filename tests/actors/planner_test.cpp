#include "actors/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/actors/replay.h"

namespace lockstep::actors {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Planner, PacksPromptsIntoChunksWithPaddingOnlyAtTheTail) {
  Planner planner(limits(/*slots=*/2, /*chunk=*/4));
  planner.add(request(1, 3, 5));
  planner.add(request(2, 7, 5));
  const Schedule schedule = planner.next().value();
  ASSERT_EQ(schedule.prefills.size(), 3u);
  EXPECT_THAT(schedule.prefills[0].ids, ElementsAre(1000, 1001, 1002, 2000));
  EXPECT_THAT(schedule.prefills[0].slot, ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(schedule.prefills[0].position, ElementsAre(0, 1, 2, 0));
  EXPECT_THAT(schedule.prefills[0].logit_rows, ElementsAre(2, -1));
  EXPECT_THAT(schedule.prefills[1].ids, ElementsAre(2001, 2002, 2003, 2004));
  EXPECT_THAT(schedule.prefills[1].logit_rows, ElementsAre(-1, -1));
  EXPECT_THAT(schedule.prefills[2].ids, ElementsAre(2005, 2006));
  EXPECT_THAT(schedule.prefills[2].logit_rows, ElementsAre(-1, 1));
  EXPECT_EQ(schedule.decode_steps, 4);  // prefill makes the first of five tokens
  EXPECT_EQ(planner.next(), std::nullopt);
}

TEST(Planner, GivesFreeSlotsToClientsInTurnAndToHigherPrioritiesFirst) {
  Planner planner(limits(/*slots=*/1, /*chunk=*/8));
  const auto add = [&](int64_t id, const char* client, int32_t priority = 0) {
    Admission waiting = request(id, 2, 1);
    waiting.client = client;
    waiting.priority = priority;
    planner.add(std::move(waiting));
  };
  add(1, "a");
  add(2, "a");
  add(3, "a");
  add(4, "b");
  add(5, "b", 1);
  std::vector<int32_t> firsts;
  while (const auto schedule = planner.next()) firsts.push_back(schedule->prefills.at(0).ids.at(0) / 1000);
  EXPECT_THAT(firsts, ElementsAre(5, 1, 4, 2, 3));
}

TEST(Planner, TellsWhatItsSlotsHold) {
  PlannerLimits few = limits(2, 4);
  few.prefill_steps = 1;
  Planner planner(few);
  planner.add(request(1, 6, 9));
  ASSERT_TRUE(planner.next());
  using Slot = trace::SlotActivity;
  EXPECT_THAT(planner.activity(),
              ElementsAre(Slot{.use = trace::SlotUse::kPrefill, .request = RequestId(1), .tokens = 4}, Slot{}));
  ASSERT_TRUE(planner.next());
  planner.note_token(RequestId(1), 5);
  planner.note_token(RequestId(1), 6);
  EXPECT_THAT(planner.activity(),
              ElementsAre(Slot{trace::SlotUse::kDecode, RequestId(1), /*tokens=*/8, /*new_tokens=*/2}, Slot{}));
  planner.finish(RequestId(1));  // no schedule follows
  EXPECT_THAT(planner.activity(), ElementsAre(Slot{}, Slot{}));
}

TEST(Planner, KeepsRowsOfOneSlotApartWhereTheEngineNeedsIt) {
  PlannerLimits one_slot = limits(2, 4);
  one_slot.rows_of_one_slot = true;
  Planner planner(one_slot);
  planner.add(request(1, 3, 1));
  planner.add(request(2, 5, 1));
  const Schedule schedule = planner.next().value();
  ASSERT_EQ(schedule.prefills.size(), 3u);
  EXPECT_THAT(schedule.prefills[0].slot, ElementsAre(0, 0, 0));
  EXPECT_THAT(schedule.prefills[1].slot, ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(schedule.prefills[2].slot, ElementsAre(1));
}

TEST(Planner, ClosesASpentSlotAndRefillsItWhileItsNeighbourDecodes) {
  PlannerLimits few = limits(2, 8);
  few.decode_steps = 4;
  Planner planner(few);
  planner.add(request(1, 2, 3));
  planner.add(request(2, 2, 20));
  planner.add(request(3, 2, 3));
  EXPECT_EQ(planner.next()->decode_steps, 2);  // a prompt waits: stop where the first slot is spent
  const Schedule refill = planner.next().value();
  EXPECT_THAT(refill.closed, ElementsAre(SlotId(0)));
  ASSERT_EQ(refill.opened.size(), 1u);
  EXPECT_EQ(refill.opened[0].slot, SlotId(0));
  ASSERT_EQ(refill.prefills.size(), 1u);
  EXPECT_THAT(refill.prefills[0].ids, ElementsAre(3000, 3001));
  EXPECT_EQ(refill.decode_steps, 4);
  EXPECT_EQ(planner.occupants(), (std::vector<std::optional<RequestId>>{RequestId(3), RequestId(2)}));
}

TEST(Planner, FreesASlotWhoseRequestFinishedEarly) {
  Planner planner(limits(1, 4));
  planner.add(request(1, 2, 90));
  planner.add(request(2, 2, 5));
  planner.next();
  planner.finish(RequestId(1));
  EXPECT_FALSE(planner.expects(RequestId(1)));
  const Schedule schedule = planner.next().value();
  EXPECT_THAT(schedule.closed, ElementsAre(SlotId(0)));
  EXPECT_THAT(schedule.prefills[0].ids, ElementsAre(2000, 2001));
}

TEST(Planner, DropsAQueuedAndAHalfPrefilledRequestThatFinished) {
  PlannerLimits short_schedules = limits(1, 4);
  short_schedules.prefill_steps = 1;
  Planner planner(short_schedules);
  planner.add(request(1, 10, 5));
  planner.add(request(2, 2, 5));
  planner.add(request(3, 2, 5));
  EXPECT_EQ(planner.next()->prefills.size(), 1u);
  planner.finish(RequestId(1));
  planner.finish(RequestId(2));
  const Schedule schedule = planner.next().value();
  EXPECT_THAT(schedule.closed, ElementsAre(SlotId(0)));
  EXPECT_THAT(schedule.prefills[0].ids, ElementsAre(3000, 3001));
}

TEST(Planner, DecodesBetweenThePrefillsOfALongPrompt) {
  PlannerLimits alternate = limits(2, 4);
  alternate.prefill_steps = 2;
  Planner planner(alternate);
  planner.add(request(1, 4, 50));
  planner.next();
  planner.add(request(2, 20, 5));
  const Schedule schedule = planner.next().value();
  EXPECT_EQ(schedule.prefills.size(), 2u);
  EXPECT_EQ(schedule.decode_steps, 2);
}

TEST(Planner, HasNothingToDoUntilSomethingIsAdded) {
  Planner planner(limits(2, 4));
  EXPECT_EQ(planner.next(), std::nullopt);
  planner.add(request(1, 1, 1));
  EXPECT_EQ(planner.next()->steps(), 1);
  EXPECT_EQ(planner.next(), std::nullopt);
}

TEST(Planner, LastClosesEverySlot) {
  Planner planner(limits(2, 4));
  planner.add(request(1, 1, 1));
  planner.next();
  const Schedule last = planner.last();
  EXPECT_EQ(last.number, 1);
  EXPECT_EQ(last.last, Last::kYes);
  EXPECT_EQ(last.steps(), 0);
  EXPECT_THAT(last.closed, ElementsAre(SlotId(0)));
}

TEST(Planner, RunsEveryPromptTokenOnceAndInOrderWhateverTheSizes) {
  std::mt19937 random(1);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  for (int round = 0; round < 300; ++round) {
    PlannerLimits some{.slots = draw(1, 4), .chunk = draw(1, 9), .capacity = 100, .rows_of_one_slot = draw(0, 1) == 1};
    some.decode_steps = draw(1, 6);
    some.prefill_steps = draw(1, 4);
    some.rows_beside_decodes = draw(0, 5);
    Planner planner(some);
    Replay replay(some);
    const int count = draw(1, 9);
    int added = 0;
    for (int schedules = 0; schedules < 10000; ++schedules) {
      if (added < count && draw(0, 1) == 1) {
        planner.add(request(++added, draw(1, 30), draw(1, 15)));
      }
      if (draw(0, 9) == 0) planner.finish(RequestId(draw(1, count)));
      const auto schedule = planner.next();
      if (schedule) replay.run(*schedule);
      if (!schedule && added == count) break;
    }
    EXPECT_EQ(planner.next(), std::nullopt);
    EXPECT_EQ(planner.queued(), 0);
    for (const auto& ids : replay.prompts) {
      for (size_t i = 1; i < ids.size(); ++i) ASSERT_EQ(ids[i], ids[i - 1] + 1);
      ASSERT_EQ(ids.front() % 1000, 0);
    }
  }
}

/// Rows of one chooser with these prompt lengths.
Admission rows(int64_t id, const std::vector<int>& lengths, int64_t new_tokens) {
  Admission made{.id = RequestId(id), .rows = {}, .new_tokens = new_tokens, .host_chosen = true};
  for (const int length : lengths) {
    made.rows.push_back({std::vector<int32_t>(static_cast<size_t>(length), static_cast<int32_t>(id)), {}});
  }
  return made;
}

TEST(Planner, KeepsARequestOfManyRowsWaitingUntilAllItsSlotsAreFree) {
  Planner planner(limits(/*slots=*/3, /*chunk=*/8));
  planner.add(request(1, 2, 3));
  planner.add(rows(2, {2, 0, 0}, 4));
  planner.add(request(3, 2, 3));  // would fit with the first, but requests start in order
  EXPECT_EQ(planner.next()->opened.size(), 1u);
  const Schedule schedule = planner.next().value();
  EXPECT_THAT(schedule.closed, ElementsAre(SlotId(0)));
  EXPECT_THAT(schedule.host_chosen, ElementsAre(HostSlots{RequestId(2), {SlotId(0), SlotId(1), SlotId(2)}}));
  EXPECT_THAT(schedule.prefills.at(0).ids, ElementsAre(2, 2));  // the other rows begin as copies
  EXPECT_EQ(schedule.decode_steps, 3);
  const Schedule next = planner.next().value();
  EXPECT_THAT(next.closed, ElementsAre(SlotId(0), SlotId(1), SlotId(2)));
  EXPECT_THAT(next.host_chosen, IsEmpty());
}

TEST(Planner, DoesNotDecodeBetweenTheEndsOfTheRowsOfARequest) {
  PlannerLimits one_row = limits(3, 1);
  one_row.prefill_steps = 1;
  Planner planner(one_row);
  planner.add(request(1, 1, 90));
  planner.next();
  planner.add(rows(2, {2, 1}, 4));
  EXPECT_EQ(planner.next()->decode_steps, 1);  // the first row's first token
  EXPECT_EQ(planner.next()->decode_steps, 0);  // one row has ended
  const Schedule both = planner.next().value();
  EXPECT_THAT(both.prefills.at(0).logit_rows, ElementsAre(-1, -1, 0));
  EXPECT_GT(both.decode_steps, 0);
}

TEST(Planner, RunsTheRestOfARequestBeforeTheQueue) {
  Planner planner(limits(1, 8));
  planner.add(request(1, 2, 2));
  planner.add(request(2, 2, 2));
  planner.next();
  planner.go_on(request(1, 4, 3));
  EXPECT_TRUE(planner.expects(RequestId(1)));
  const Schedule rest = planner.next().value();
  EXPECT_THAT(rest.closed, ElementsAre(SlotId(0)));
  EXPECT_THAT(rest.prefills.at(0).ids, ElementsAre(1000, 1001, 1002, 1003));
  EXPECT_THAT(planner.next()->prefills.at(0).ids, ElementsAre(2000, 2001));
}

TEST(Planner, NamesTheSlotsWhoseLogitsAreWanted) {
  Planner planner(limits(2, 8));
  Admission wants = request(1, 2, 2);
  wants.logits = Logits::kWanted;
  planner.add(wants);
  EXPECT_THAT(planner.next()->logits_of, ElementsAre(SlotId(0)));
  planner.add(request(2, 2, 2));
  EXPECT_THAT(planner.next()->logits_of, IsEmpty());
}

TEST(Schedule, PrintsInOneLine) {
  Planner planner(limits(2, 4));
  planner.add(request(1, 5, 3));
  EXPECT_EQ(to_string(planner.next().value()), "schedule 0: open 0; prefill 4+1 rows; decode 2");
  EXPECT_EQ(to_string(planner.last()), "schedule 1: close 0; last");
}

}  // namespace
}  // namespace lockstep::actors
