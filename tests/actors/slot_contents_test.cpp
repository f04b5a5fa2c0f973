#include "actors/slot_contents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "actors/planner.h"

namespace lockstep::actors {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr shards::KeptTokens kAll{.whole = 1000, .rewind = 1000};

PlannerLimits limits(int64_t slots, shards::KeptTokens kept = kAll) {
  return {.slots = slots, .chunk = 64, .capacity = 100, .decode_steps = 10, .shared_prefix = 4, .kept = kept};
}

std::vector<int32_t> numbers(int32_t first, int32_t count) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

std::vector<int32_t> operator+(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Runs requests to their ends, one after the other or side by side, as a coordinator would.
class Requests {
 public:
  explicit Requests(PlannerLimits limits) : limits_(limits), planner_(limits) {}

  /// The schedule that opens its slot; `tokens` are made, then the request is over.
  Schedule run(int64_t id, std::vector<int32_t> ids, const std::vector<int32_t>& tokens) {
    const Schedule schedule = start(id, std::move(ids), static_cast<int32_t>(tokens.size()));
    end(id, tokens);
    return schedule;
  }

  Schedule start(int64_t id, std::vector<int32_t> ids, int32_t new_tokens = 3) {
    Request request{.id = RequestId(id), .ids = std::move(ids), .parameters = {}};
    request.parameters.max_new_tokens = new_tokens;
    planner_.add(admit(request, limits_).value());
    return planner_.next().value();
  }

  void end(int64_t id, const std::vector<int32_t>& tokens) {
    for (const int32_t token : tokens) planner_.note_token(RequestId(id), token);
    planner_.finish(RequestId(id));
  }

  Planner& planner() { return planner_; }

 private:
  const PlannerLimits limits_;
  Planner planner_;
};

const std::vector<int32_t> kPrompt = numbers(1, 6), kMade = numbers(20, 3);

TEST(PrefixReuse, GoesOnInPlaceWhereAConversationGoesOn) {
  Requests requests(limits(2));
  requests.run(1, kPrompt, kMade);
  const Schedule next = requests.run(2, kPrompt + kMade + numbers(40, 2), kMade);
  ASSERT_THAT(next.opened, SizeIs(1));
  EXPECT_EQ(next.opened[0].slot, SlotId(0));
  EXPECT_THAT(next.opened[0].saved, IsEmpty());
  // The last token that was made is in no cache yet.
  EXPECT_EQ(next.opened[0].prefix, (shards::KeptPrefix{SlotId(0), kPrompt + numbers(20, 2)}));
  EXPECT_THAT(next.prefills.at(0).ids, ElementsAre(22, 40, 41));
  EXPECT_THAT(next.prefills[0].position, ElementsAre(8, 9, 10));
  EXPECT_EQ(to_string(next), "schedule 1: close 0; open 0 (8 tokens of 0); prefill 3 rows; decode 2");
}

TEST(PrefixReuse, RunsTheLastTokenOfAnEqualPrompt) {
  Requests requests(limits(1));
  requests.run(1, kPrompt, kMade);
  const Schedule next = requests.run(2, kPrompt, kMade);
  EXPECT_THAT(next.prefills.at(0).ids, ElementsAre(6));
  EXPECT_THAT(next.prefills[0].logit_rows, ElementsAre(0));
}

TEST(PrefixReuse, CopiesFromASlotThatStillRuns) {
  Requests requests(limits(2));
  requests.start(1, kPrompt, 50);
  const Schedule next = requests.run(2, numbers(1, 5) + numbers(60, 2), kMade);
  EXPECT_EQ(next.opened.at(0).slot, SlotId(1));
  EXPECT_EQ(next.opened[0].prefix, (shards::KeptPrefix{SlotId(0), numbers(1, 5)}));
  EXPECT_THAT(next.prefills.at(0).ids, ElementsAre(60, 61));
}

TEST(PrefixReuse, NeedsAsManyTokensAsACopyIsWorth) {
  Requests requests(limits(1));
  requests.run(1, kPrompt, kMade);
  EXPECT_THAT(requests.run(2, numbers(1, 3) + numbers(60, 4), kMade).opened.at(0).prefix.ids, IsEmpty());
}

TEST(PrefixReuse, SavesWhatASlotHoldsBeforeAnotherRequestTakesIt) {
  Requests requests(limits(3));
  requests.run(1, kPrompt, kMade);
  const Schedule other = requests.run(2, numbers(50, 6), kMade);
  EXPECT_EQ(other.opened.at(0).slot, SlotId(0));  // the lowest one, so that steps stay small
  EXPECT_THAT(other.opened[0].saved, ElementsAre(SavedSlot{SlotId(1), 8}));
  const Schedule back = requests.run(3, kPrompt + kMade + numbers(40, 2), kMade);
  EXPECT_EQ(back.opened.at(0).prefix.source, SlotId(1));
  EXPECT_THAT(back.opened[0].prefix.ids, SizeIs(8));
  EXPECT_THAT(back.opened[0].saved, ElementsAre(SavedSlot{SlotId(2), 8}));  // the other conversation
}

TEST(PrefixReuse, GivesUpTheOldestContents) {
  Requests requests(limits(2));
  requests.run(1, numbers(10, 6), kMade);
  requests.run(2, numbers(30, 6), kMade);  // 1 goes to slot 1
  requests.run(3, numbers(50, 6), kMade);  // 2 goes there in its place
  EXPECT_THAT(requests.run(4, numbers(10, 6), kMade).opened.at(0).prefix.ids, IsEmpty());
}

TEST(PrefixReuse, GivesUpWhatAnotherSlotHoldsTooBeforeTheOldestContents) {
  Requests requests(limits(4));
  requests.start(1, numbers(80, 6), 50);
  requests.run(2, numbers(10, 6), kMade);
  EXPECT_THAT(requests.run(3, kPrompt, kMade).opened.at(0).saved, ElementsAre(SavedSlot{SlotId(2), 8}));  // 2's
  requests.end(1, kMade);
  const Schedule longer = requests.run(4, kPrompt + kMade + numbers(40, 2), kMade);
  EXPECT_EQ(longer.opened.at(0).prefix.source, SlotId(1));
  EXPECT_THAT(longer.opened[0].saved, ElementsAre(SavedSlot{SlotId(3), 8}));  // 1's
  // Slot 1 still has request 3, of which slot 0 has every token. Slot 2 has request 2, which is older.
  EXPECT_THAT(requests.run(5, numbers(60, 6), kMade).opened.at(0).saved, ElementsAre(SavedSlot{SlotId(1), 13}));
  EXPECT_THAT(requests.run(6, numbers(10, 6) + numbers(70, 2), kMade).opened.at(0).prefix.ids, SizeIs(6));
}

TEST(PrefixReuse, ReusesEveryTurnOfAConversationAmongOthersWithTheSameBeginning) {
  Requests requests(limits(4));
  std::vector<std::vector<int32_t>> talks(3, kPrompt);
  int64_t id = 0;
  for (int32_t turn = 0; turn < 4; ++turn) {
    for (int32_t talk = 0; talk < 3; ++talk) {
      std::vector<int32_t>& ids = talks[static_cast<size_t>(talk)];
      ids = ids + numbers(1000 * (talk + 1) + 10 * turn, 3);
      const Schedule schedule = requests.run(++id, ids, numbers(500 * (talk + 1) + 10 * turn, 2));
      // All but the last token of the answer, which is in no cache.
      const size_t held = turn > 0 ? ids.size() - 4 : talk > 0 ? kPrompt.size() : 0;
      EXPECT_THAT(schedule.opened.at(0).prefix.ids, SizeIs(held)) << "turn " << turn << " of talk " << talk;
      ids = ids + numbers(500 * (talk + 1) + 10 * turn, 2);
    }
  }
}

TEST(PrefixReuse, AsksWhatARingStillHolds) {
  // Written in slot 0: six tokens of the prompt and two of the three that were made.
  for (const auto& [kept, tokens] : {std::pair{shards::KeptTokens{.whole = 8, .rewind = 1}, size_t{5}},
                                     {shards::KeptTokens{.whole = 7, .rewind = 2}, size_t{0}},
                                     {shards::KeptTokens{.whole = 7, .rewind = 3}, size_t{5}}}) {
    Requests requests(limits(1, kept));
    requests.run(1, kPrompt, kMade);
    EXPECT_THAT(requests.run(2, numbers(1, 5) + numbers(60, 2), kMade).opened.at(0).prefix.ids, SizeIs(tokens));
  }
}

TEST(PrefixReuse, RemembersWhatARingHasLostThoughItsSequenceIsShorterNow) {
  Requests requests(limits(1, {.whole = 7, .rewind = 3}));
  requests.run(1, kPrompt, kMade);  // of eight tokens
  EXPECT_THAT(requests.run(2, numbers(1, 5) + numbers(60, 2), {70}).opened.at(0).prefix.ids, SizeIs(5));
  EXPECT_THAT(requests.run(3, numbers(1, 4) + numbers(80, 2), {70}).opened.at(0).prefix.ids, IsEmpty());
}

TEST(PrefixReuse, IgnoresWhatWasMadeByOtherFactorsOrForOtherRows) {
  SlotContents contents(limits(2));
  contents.open(SlotId(0), {.owner = RequestId(1), .begin = {}, .long_rope = true, .most = 10});
  for (int32_t i = 0; i < 6; ++i) contents.note_row(SlotId(0), kPrompt[static_cast<size_t>(i)], i);
  EXPECT_THAT(contents.best_prefix(kPrompt, /*long_rope=*/false).ids, IsEmpty());
  EXPECT_THAT(contents.best_prefix(kPrompt, /*long_rope=*/true).ids, SizeIs(5));
  contents.forget(SlotId(0));
  EXPECT_THAT(contents.best_prefix(kPrompt, /*long_rope=*/true).ids, IsEmpty());
}

TEST(PrefixReuse, IsOffWhereSlotsKeepNothing) {
  Requests requests(limits(2, {}));
  requests.run(1, kPrompt, kMade);
  const Schedule next = requests.run(2, kPrompt, kMade);
  EXPECT_THAT(next.opened.at(0).prefix.ids, IsEmpty());
  EXPECT_THAT(next.prefills.at(0).ids, SizeIs(6));
}

TEST(PrefixReuse, IsNothingForATextWhoseTokensAllCount) {
  PlannerLimits scoring = limits(1);
  scoring.score_rows = 8;
  Planner planner(scoring);
  const Request text{.id = RequestId(1), .ids = kPrompt, .parameters = {}, .task = Task::kScore};
  planner.add(admit(text, scoring).value());
  EXPECT_THAT(planner.next().value().scores.at(0).ids, SizeIs(5));
  Request again = text;
  again.id = RequestId(2);
  planner.add(admit(again, scoring).value());
  EXPECT_THAT(planner.next().value().scores.at(0).ids, SizeIs(5));
  // Yet a prompt may begin with a text.
  Request prompt{.id = RequestId(3), .ids = kPrompt, .parameters = {}};
  planner.add(admit(prompt, scoring).value());
  EXPECT_THAT(planner.next().value().opened.at(0).prefix.ids, SizeIs(5));
}

}  // namespace
}  // namespace lockstep::actors
