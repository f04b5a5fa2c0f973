#include "actors/host_choosers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <stdexcept>

#include "tests/actors/fake_choosers.h"

namespace lockstep::actors {
namespace {

using generation::Choice;
using generation::FinishReason;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kSlots = 4;
constexpr PlannerLimits kLimits{.slots = kSlots, .chunk = 4, .capacity = 50};

TEST(ContinueRows, KeepsTheFirstHeirInPlaceAndGivesTheOthersTheSlotsOfTheDead) {
  const std::vector<SlotId> slots = {SlotId(4), SlotId(5), SlotId(6), SlotId(7)};
  const std::vector<int32_t> sources = {0, 0, 2, 2};
  EXPECT_EQ(continue_rows(slots, sources), slots);
  const std::vector<int32_t> crossed = {1, 0, 3, 3};
  EXPECT_THAT(continue_rows(slots, crossed), ElementsAre(SlotId(5), SlotId(4), SlotId(6), SlotId(7)));
}

TEST(ContinueRows, NeverCopiesFromASlotThatBecomesACopy) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const size_t rows = 1 + random() % 6;
    std::vector<SlotId> slots;
    std::vector<int32_t> sources;
    for (size_t r = 0; r < rows; ++r) slots.emplace_back(static_cast<int32_t>(r + 10));
    std::ranges::shuffle(slots, random);
    for (size_t r = 0; r < rows; ++r) sources.push_back(static_cast<int32_t>(random() % rows));
    const auto next = continue_rows(slots, sources);
    std::set<SlotId> copies, kept;
    for (size_t r = 0; r < rows; ++r) {
      const SlotId source = slots[static_cast<size_t>(sources[r])];
      (next[r] == source ? kept : copies).insert(next[r]);
    }
    EXPECT_EQ(copies.size() + kept.size(), rows);  // every row has its own slot
    for (const int32_t source : sources) EXPECT_TRUE(kept.contains(slots[static_cast<size_t>(source)]));
  }
}

/// A book with one request of one row in slot 2.
struct Asked {
  explicit Asked(ScriptedChooser::Script script, int32_t new_tokens = 5) {
    const Request request =
        request_with(1, std::make_shared<ScriptedChooser>(std::vector<int32_t>{3}, std::move(script)), new_tokens);
    book.open(request, admit(request, kLimits).value());
  }

  std::vector<HostChoice> decide(std::span<const float> logits) {
    decision = shards::Decision(kSlots);
    const std::vector<HostSlots> hosts = {{RequestId(1), {SlotId(2)}}};
    const std::vector<uint8_t> with_logits = {0, 0, 1, 0};
    return book.decide(hosts, with_logits, {.tokens = {}, .logits = logits}, decision);
  }
  std::vector<HostChoice> decide() { return decide(std::vector<float>(kSlots * 2, 0.5f)); }

  /// The error of the only choice; its slot must be ended.
  Error error(std::span<const float> logits) {
    const auto choices = decide(logits);
    EXPECT_EQ(choices.at(0).finished, FinishReason::kError);
    EXPECT_THAT(decision.finished, ElementsAre(0, 0, 1, 0));
    return choices.at(0).error.value();
  }
  Error error() { return error(std::vector<float>(kSlots * 2, 0.5f)); }

  HostChoosers book;
  shards::Decision decision{kSlots};
};

TEST(HostChoosers, GivesTheSlotTheTokenThatWasChosen) {
  Asked asked([](std::span<const float> logits) { return Choice{{logits[1] > logits[0] ? 1 : 0}, {0}}; });
  const std::vector<float> logits = {9, 0, 9, 0, 0, 9, 9, 0};
  EXPECT_THAT(asked.decide(logits), ElementsAre(HostChoice{.request = RequestId(1), .certain = {}, .fed = {1}}));
  EXPECT_THAT(asked.decision.tokens, ElementsAre(-1, -1, 1, -1));
  EXPECT_THAT(asked.decision.sources, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(asked.decision.finished, ElementsAre(0, 0, 0, 0));
}

TEST(HostChoosers, EndsTheSlotsOfARequestThatWasClosed) {
  Asked asked([](auto) -> Choice { throw std::logic_error("asked after its end"); });
  asked.book.close(RequestId(1));
  EXPECT_THAT(asked.decide(), IsEmpty());
  EXPECT_THAT(asked.decision.finished, ElementsAre(0, 0, 1, 0));
}

TEST(HostChoosers, EndsARequestWhoseBudgetIsSpent) {
  Asked asked([](auto) { return Choice{{0}, {0}}; }, /*new_tokens=*/2);
  EXPECT_EQ(asked.decide().at(0).finished, std::nullopt);
  EXPECT_EQ(asked.decide().at(0).finished, FinishReason::kLength);
  EXPECT_THAT(asked.decision.finished, ElementsAre(0, 0, 1, 0));
}

TEST(HostChoosers, BlamesTheRequestForWhatItsChooserGetsWrong) {
  const auto error = [](const Choice& choice) { return Asked([choice](auto) { return choice; }).error().message; };
  EXPECT_THAT(error({{0, 1}, {0}}), HasSubstr("found 2 tokens and 1 sources"));
  EXPECT_THAT(error({{2}, {0}}), HasSubstr("found token 2 of row 0, expected 0 to 1"));
  EXPECT_THAT(error({{0}, {1}}), HasSubstr("row 0 cannot go on from row 1"));
  EXPECT_THAT(Asked([](auto) -> Choice { throw std::runtime_error("out of ideas"); }).error().message,
              HasSubstr("out of ideas"));
  EXPECT_THAT(Asked([](auto) -> Choice { throw 7; }).error().message, HasSubstr("unknown"));
}

TEST(HostChoosers, SaysThatLogitsWereNotAskedForAtStart) {
  const Error error = Asked([](auto) { return Choice{{0}, {0}}; }).error(std::span<const float>());
  EXPECT_EQ(error.kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(error.message, HasSubstr("logits were not asked for at start"));
}

TEST(HostChoosers, WaitsForTheLogitsOfAllPromptsAndForNoOthers) {
  const auto chooser = std::make_shared<FakeBeams>(FakeBeams::Options{.prompts = {{1}, {2}, {}}});
  const Request request = request_with(1, chooser, 9);
  HostChoosers book;
  book.open(request, admit(request, kLimits).value());
  const std::vector<HostSlots> hosts = {{RequestId(1), {SlotId(3), SlotId(1), SlotId(0)}}};
  const auto decide = [&](std::vector<uint8_t> with_logits) {
    std::vector<float> logits(kSlots * kFakeVocabulary);
    std::ranges::copy(expected_logits({1}, kFakeVocabulary), logits.begin() + 3 * kFakeVocabulary);
    std::ranges::copy(expected_logits({2}, kFakeVocabulary), logits.begin() + 1 * kFakeVocabulary);
    shards::Decision decision(kSlots);
    book.decide(hosts, with_logits, {.tokens = {}, .logits = logits}, decision);
    return decision;
  };
  EXPECT_EQ(decide({0, 0, 0, 1}), shards::Decision(kSlots));
  EXPECT_EQ(chooser->made(), 0);
  EXPECT_NE(decide({0, 1, 0, 0}).tokens[0], -1);  // the row without a prompt begins as a copy
  EXPECT_EQ(chooser->made(), 1);
  EXPECT_EQ(chooser->mistakes(), 0);
}

TEST(HostChoosers, KeepsRowsOfDifferentRopeFactorsApart) {
  PlannerLimits border = kLimits;
  border.long_rope_after = 3;
  class Crosser final : public generation::TokenChooser {
    int64_t rows() const override { return 2; }
    std::vector<std::vector<int32_t>> prompts() const override { return {{1, 2, 3, 4}, {5}}; }
    Choice choose(std::span<const float>) override { return {{0, 0}, {0, 0}}; }
    std::span<const int32_t> certain() const override { return {}; }
    std::vector<generation::Sequence> sequences() const override { return {}; }
  };
  const Request request = request_with(1, std::make_shared<Crosser>(), 2);
  HostChoosers book;
  book.open(request, admit(request, border).value());
  shards::Decision decision(kSlots);
  const std::vector<HostSlots> hosts = {{RequestId(1), {SlotId(0), SlotId(1)}}};
  const auto choices = book.decide(hosts, std::vector<uint8_t>{1, 1, 0, 0},
                                   {.tokens = {}, .logits = std::vector<float>(kSlots * 2)}, decision);
  EXPECT_THAT(choices.at(0).error.value().message, HasSubstr("row 1 cannot go on from row 0"));
}

TEST(HostChoosers, EndsARequestWithTheErrorOfItsChoice) {
  const auto chooser = std::make_shared<ScriptedChooser>(std::vector<int32_t>{1}, [](std::span<const float>) {
    return generation::Choice{.error = Error{ErrorKind::kFailedPrecondition, "no token is allowed"}};
  });
  const Request request = request_with(1, chooser, 9);
  HostChoosers book;
  book.open(request, admit(request, kLimits).value());
  shards::Decision decision(kSlots);
  const std::vector<HostSlots> hosts = {{RequestId(1), {SlotId(0)}}};
  const auto choices = book.decide(hosts, std::vector<uint8_t>{1, 0, 0, 0},
                                   {.tokens = {}, .logits = std::vector<float>(kSlots * 2)}, decision);
  EXPECT_EQ(choices.at(0).error.value().kind, ErrorKind::kFailedPrecondition);
  EXPECT_EQ(decision.finished[0], 1);
}

}  // namespace
}  // namespace lockstep::actors
