#include "actors/prompt_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>

namespace lockstep::actors {
namespace {

using shards::SlotCopy;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

PlannerLimits limits(int64_t slots, int64_t chunk, int64_t shared_prefix = 4) {
  return {.slots = slots, .chunk = chunk, .capacity = 100, .shared_prefix = shared_prefix};
}

/// `shared` ids that all prompts begin with, then `own` ids that only those of `slot` have.
Prompt prompt(int32_t slot, int shared, int own) {
  Prompt made{
      .slot = SlotId(slot), .ids = std::vector<int32_t>(static_cast<size_t>(shared + own)), .request = RequestId(slot)};
  std::iota(made.ids.begin(), made.ids.begin() + shared, 1);
  std::iota(made.ids.begin() + shared, made.ids.end(), 100 * (slot + 1));
  return made;
}

SlotCopy copy(int32_t src, int32_t dst) { return {SlotId(src), SlotId(dst)}; }

constexpr int64_t kAllRows = 1000;  // only the chunk bounds a step

TEST(PromptQueue, PrefillsWhatPromptsShareOnce) {
  PromptQueue queue(limits(3, 16));
  for (int32_t slot = 0; slot < 3; ++slot) queue.add(prompt(slot, 6, 2));
  const auto first = queue.next_step(kAllRows);
  EXPECT_THAT(first.ids, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(first.copies, IsEmpty());
  const auto second = queue.next_step(kAllRows);
  EXPECT_THAT(second.copies, ElementsAre(copy(0, 1), copy(0, 2)));
  EXPECT_THAT(second.ids, ElementsAre(100, 101, 200, 201, 300, 301));
  EXPECT_THAT(second.position, ElementsAre(6, 7, 6, 7, 6, 7));
  EXPECT_THAT(second.logit_rows, ElementsAre(1, 3, 5));
  EXPECT_TRUE(queue.is_empty());
}

TEST(PromptQueue, RunsTheLastTokenOfEqualPromptsForEachOfThem) {
  PromptQueue queue(limits(4, 16));
  for (int32_t slot = 0; slot < 4; ++slot) queue.add(prompt(slot, 9, 0));
  EXPECT_EQ(queue.next_step(kAllRows).ids.size(), 8u);
  const auto second = queue.next_step(kAllRows);
  EXPECT_EQ(second.copies.size(), 3u);
  EXPECT_THAT(second.ids, ElementsAre(9, 9, 9, 9));
  EXPECT_THAT(second.logit_rows, ElementsAre(0, 1, 2, 3));
}

TEST(PromptQueue, PausesOnceForEveryPlaceWherePromptsPart) {
  PromptQueue queue(limits(3, 16));
  queue.add(prompt(0, 10, 2));
  queue.add(prompt(1, 5, 2));
  queue.add(prompt(2, 8, 2));
  EXPECT_EQ(queue.next_step(kAllRows).ids.size(), 5u);
  const auto second = queue.next_step(kAllRows);
  EXPECT_THAT(second.copies, ElementsAre(copy(0, 1)));
  EXPECT_THAT(second.slot, ElementsAre(0, 0, 0, 1, 1));
  const auto third = queue.next_step(kAllRows);
  EXPECT_THAT(third.copies, ElementsAre(copy(0, 2)));
  EXPECT_THAT(third.slot, ElementsAre(0, 0, 0, 0, 2, 2));
}

TEST(PromptQueue, SharesWithAPromptThatIsUnderWayUntilItHasPassedTheirCommonPart) {
  PromptQueue queue(limits(4, 4));
  queue.add(prompt(0, 12, 0));
  queue.next_step(kAllRows);
  queue.add(prompt(1, 4, 3));
  queue.add(prompt(2, 9, 0));
  const auto step = queue.next_step(kAllRows);
  EXPECT_THAT(step.copies, ElementsAre(copy(0, 1)));
  EXPECT_THAT(step.slot, ElementsAre(0, 0, 0, 0));
  queue.add(prompt(3, 7, 1));  // slot 0 has passed seven, slot 2 will begin beyond: slot 1 has four
  EXPECT_THAT(queue.next_step(kAllRows).copies, ElementsAre(copy(0, 2), copy(1, 3)));
  while (!queue.is_empty()) EXPECT_THAT(queue.next_step(kAllRows).copies, IsEmpty());
}

TEST(PromptQueue, LeavesShortBeginningsAndOtherRopeFactorsAlone) {
  PromptQueue queue(limits(3, 16, /*shared_prefix=*/6));
  queue.add(prompt(0, 5, 1));
  queue.add(prompt(1, 5, 1));
  EXPECT_EQ(queue.next_step(kAllRows).ids.size(), 12u);
  queue.add(prompt(0, 7, 1));
  Prompt turned = prompt(1, 7, 1);
  turned.long_rope = true;
  queue.add(turned);
  EXPECT_EQ(queue.next_step(kAllRows).ids.size(), 16u);
}

TEST(PromptQueue, GivesEverySecondStepToTheShortestPromptIfAsked) {
  const auto slots_of_steps = [](PromptOrder order) {
    PromptQueue queue(limits(3, 4));
    queue.add(prompt(0, 0, 14));
    queue.add(prompt(1, 0, 9));
    queue.add(prompt(2, 0, 6));
    std::vector<std::vector<int32_t>> slots;
    while (!queue.is_empty()) slots.push_back(queue.next_step(kAllRows, order).slot);
    return slots;
  };
  EXPECT_THAT(
      slots_of_steps(PromptOrder::kShortestInTurn),
      ElementsAre(ElementsAre(0, 0, 0, 0), ElementsAre(2, 2, 2, 2), ElementsAre(0, 0, 0, 0), ElementsAre(2, 2, 0, 0),
                  ElementsAre(0, 0, 0, 0), ElementsAre(1, 1, 1, 1), ElementsAre(1, 1, 1, 1), ElementsAre(1)));
  EXPECT_THAT(slots_of_steps(PromptOrder::kAdmission)[2], ElementsAre(0, 0, 0, 0));
}

TEST(PromptQueue, FindsAnotherSourceWhenOneIsDropped) {
  PromptQueue queue(limits(4, 4));
  queue.add(prompt(0, 9, 1));
  queue.add(prompt(1, 9, 1));
  queue.add(prompt(2, 9, 1));
  queue.next_step(kAllRows);
  queue.drop(SlotId(0));
  EXPECT_EQ(queue.next_step(kAllRows).slot, (std::vector<int32_t>(4, 1)));
  queue.next_step(kAllRows);
  queue.next_step(kAllRows);
  EXPECT_THAT(queue.next_step(kAllRows).copies, ElementsAre(copy(1, 2)));
}

TEST(PromptQueue, KeepsRowsOfOneSlotApartWhereTheEngineNeedsIt) {
  PlannerLimits one_slot = limits(2, 16);
  one_slot.rows_of_one_slot = true;
  PromptQueue queue(one_slot);
  queue.add(prompt(0, 6, 2));
  queue.add(prompt(1, 6, 2));
  EXPECT_THAT(queue.next_step(kAllRows).slot, ElementsAre(0, 0, 0, 0, 0, 0));
  const auto second = queue.next_step(kAllRows);
  EXPECT_THAT(second.copies, ElementsAre(copy(0, 1)));
  EXPECT_THAT(second.slot, ElementsAre(0, 0));
  EXPECT_THAT(queue.next_step(kAllRows).slot, ElementsAre(1, 1));
}

TEST(PromptQueue, RunsTheLastTokensOfARequestsPromptsTogether) {
  PromptQueue queue(limits(3, 4));
  Prompt negative = prompt(1, 0, 6);
  negative.request = RequestId(0);
  queue.add(prompt(0, 0, 2));
  queue.add(negative);
  queue.add(prompt(2, 0, 3));
  EXPECT_THAT(queue.next_step(kAllRows).slot, ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(queue.next_step(kAllRows).slot, ElementsAre(1, 1, 2, 2));
  const auto last = queue.next_step(kAllRows);
  EXPECT_THAT(last.slot, ElementsAre(0, 1, 2));
  EXPECT_THAT(last.logit_rows, ElementsAre(0, 1, 2));
}

TEST(PromptQueue, FinishesARequestOfWhichAPromptHasEndedFirst) {
  PromptQueue queue(limits(3, 1));
  Prompt second = prompt(2, 0, 1);
  second.request = RequestId(1);
  queue.add(prompt(1, 0, 1));
  queue.add(prompt(0, 0, 9));
  queue.add(second);
  EXPECT_THAT(queue.next_step(kAllRows).slot, ElementsAre(1));
  EXPECT_TRUE(queue.is_between_prompts_of_a_request());
  EXPECT_THAT(queue.next_step(kAllRows).slot, ElementsAre(2));
  EXPECT_FALSE(queue.is_between_prompts_of_a_request());
}

TEST(PromptQueue, GivesEverySlotItsPromptWhateverIsSharedAndDropped) {
  std::mt19937 random(1);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  for (int round = 0; round < 1000; ++round) {
    PlannerLimits some = limits(8, draw(1, 9), draw(1, 4));
    some.rows_of_one_slot = draw(0, 3) == 0;
    PromptQueue queue(some);
    std::map<int32_t, std::vector<int32_t>> wanted, slots;
    const auto run = [&] {
      const auto rows = queue.next_step(kAllRows);
      for (const SlotCopy& made : rows.copies) {
        ASSERT_TRUE(slots[made.dst.value].empty());
        slots[made.dst.value] = slots[made.src.value];
      }
      ASSERT_LE(std::ssize(rows.ids), some.chunk);
      for (size_t row = 0; row < rows.ids.size(); ++row) {
        std::vector<int32_t>& slot = slots[rows.slot[row]];
        ASSERT_EQ(rows.position[row], std::ssize(slot));
        slot.push_back(rows.ids[row]);
        const bool is_last = slot.size() == wanted[rows.slot[row]].size();
        ASSERT_EQ(rows.logit_rows[static_cast<size_t>(rows.slot[row])] == static_cast<int32_t>(row), is_last);
      }
    };
    for (int32_t slot = 0; slot < 8; ++slot) {
      Prompt added{
          .slot = SlotId(slot), .ids = {}, .long_rope = draw(0, 4) == 0, .request = RequestId(slot / draw(1, 3))};
      for (int i = draw(1, 20); i > 0; --i) added.ids.push_back(draw(0, 5) == 0 ? 1 : 0);
      wanted[slot] = added.ids;
      queue.add(added);
      while (draw(0, 2) == 0 && !queue.is_empty()) ASSERT_NO_FATAL_FAILURE(run());
      if (const int32_t gone = draw(0, 20); gone <= slot && slots[gone] != wanted[gone]) {
        queue.drop(SlotId(gone));
        wanted[gone] = slots[gone];
      }
    }
    while (!queue.is_empty()) ASSERT_NO_FATAL_FAILURE(run());
    EXPECT_EQ(slots, wanted);
  }
}

}  // namespace
}  // namespace lockstep::actors
