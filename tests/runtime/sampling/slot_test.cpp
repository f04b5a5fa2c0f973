#include "runtime/sampling/slot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/changed_fields.h"

namespace lockstep::sampling {
namespace {

using ::testing::ElementsAre;

constexpr size_t kVocabulary = 12;

/// One slot's states as a backend holds them.
struct Slot {
  explicit Slot(const SlotRule& rule) : packed(pack(rule)) {}

  SlotView view() {
    return {.numbers = packed.numbers.data(),
            .integers = packed.integers.data(),
            .seed = packed.seed.data(),
            .eos = packed.eos.data(),
            .eos_ids = kMaxEosIds,
            .last_id = &last_id,
            .output_index = &output_index,
            .finished = &finished};
  }

  PackedRule packed;
  int32_t last_id = 3;
  int32_t output_index = 0;
  int32_t finished = 0;
  std::vector<uint8_t> seen = std::vector<uint8_t>(kVocabulary, 0);
};

SlotRule rule_with_eos(std::initializer_list<int32_t> ids) {
  SlotRule rule{.max_new_tokens = 100};
  rule.eos.fill(-1);
  std::copy(ids.begin(), ids.end(), rule.eos.begin());
  return rule;
}

/// Logits after `id`: random, the same every time.
std::vector<float> logits_after(int32_t id) {
  std::vector<float> logits(kVocabulary);
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = 4.0f * uniform(static_cast<uint64_t>(id) + 50, static_cast<uint32_t>(i));
  }
  return logits;
}

std::vector<float> one_likely(int32_t id) {
  std::vector<float> logits(kVocabulary, 0.0f);
  logits[static_cast<size_t>(id)] = 9.0f;
  return logits;
}

TEST(Pack, KeepsEveryParameter) {
  const auto words_of = [](const Parameters& parameters) {
    const PackedRule packed = pack({.parameters = parameters});
    return std::tuple(packed.numbers, packed.integers, packed.seed);
  };
  for_each_changed_field(Parameters(), [&](const std::string& name, const Parameters& changed) {
    EXPECT_NE(words_of(changed), words_of({})) << name;
  });
}

TEST(Pack, KeepsEveryFieldInItsColumn) {
  SlotRule rule = rule_with_eos({7, 8});
  rule.parameters = {.do_sample = true,
                     .temperature = 0.5f,
                     .top_k = 4,
                     .top_p = 0.75f,
                     .min_p = 0.125f,
                     .repetition_penalty = 1.5f,
                     .seed = 0xfedcba9876543210u,
                     .typical_p = 0.25f,
                     .epsilon_cutoff = 0.01f,
                     .eta_cutoff = 0.02f};
  rule.min_new_tokens = 2;
  rule.max_new_tokens = 9;
  rule.pad_id = 6;
  const PackedRule packed = pack(rule);
  EXPECT_THAT(packed.numbers, ElementsAre(0.5f, 0.75f, 0.125f, 0.25f, 0.01f, 0.02f, 1.5f));
  EXPECT_THAT(packed.integers, ElementsAre(4, 1, 2, 9, 6));
  EXPECT_THAT(packed.seed, ElementsAre(0x76543210, static_cast<int32_t>(0xfedcba98u)));
  EXPECT_EQ(packed.eos, rule.eos);
}

TEST(TakeNext, ChoosesAsChooseDoes) {
  SlotRule rule = rule_with_eos({});
  rule.parameters = {.do_sample = true, .top_k = 5, .seed = 1234567890123u, .typical_p = 0.9f, .eta_cutoff = 0.01f};
  Slot slot(rule);
  Scratch scratch(kVocabulary);
  for (uint32_t i = 0; i < 50; ++i) {
    const std::vector<float> logits = logits_after(slot.last_id);
    const int32_t expected = choose(logits, slot.seen, rule.parameters, i, scratch);
    EXPECT_EQ(take_next(slot.view(), logits, slot.seen, scratch), expected);
    EXPECT_EQ(slot.last_id, expected);
    EXPECT_EQ(slot.output_index, static_cast<int32_t>(i + 1));
    EXPECT_EQ(slot.finished, 0);
  }
}

TEST(TakeNext, FinishesOnAnEndTokenAndAtTheBudget) {
  Scratch scratch(kVocabulary);
  Slot ended(rule_with_eos({4, 7}));
  take_next(ended.view(), one_likely(7), ended.seen, scratch);
  EXPECT_EQ(ended.finished, 1);

  SlotRule rule = rule_with_eos({4});
  rule.max_new_tokens = 2;
  Slot full(rule);
  take_next(full.view(), one_likely(7), full.seen, scratch);
  EXPECT_EQ(full.finished, 0);
  take_next(full.view(), one_likely(7), full.seen, scratch);
  EXPECT_EQ(full.finished, 1);
}

TEST(TakeNext, DoesNotEndBeforeItsTime) {
  SlotRule rule = rule_with_eos({7});
  rule.min_new_tokens = 2;
  Slot slot(rule);
  Scratch scratch(kVocabulary);
  EXPECT_EQ(take_next(slot.view(), one_likely(7), slot.seen, scratch), 0);
  EXPECT_EQ(take_next(slot.view(), one_likely(7), slot.seen, scratch), 0);
  EXPECT_EQ(take_next(slot.view(), one_likely(7), slot.seen, scratch), 7);
  EXPECT_EQ(slot.finished, 1);
}

// ---- drafts -------------------------------------------------------------------------------------------------------

/// Tokens one at a time, with `seen` marked like in the graphs, for the inputs.
std::vector<int32_t> one_by_one(Slot& slot, size_t count) {
  Scratch scratch(kVocabulary);
  std::vector<int32_t> tokens;
  while (tokens.size() < count && slot.finished == 0) {
    slot.seen[static_cast<size_t>(slot.last_id)] = 1;
    tokens.push_back(take_next(slot.view(), logits_after(slot.last_id), slot.seen, scratch));
  }
  return tokens;
}

std::vector<int32_t> by_draft(Slot& slot, const std::vector<int32_t>& drafted) {
  Scratch scratch(kVocabulary);
  std::vector<float> logits = logits_after(slot.last_id);
  for (const int32_t id : drafted) {
    const std::vector<float> row = logits_after(id);
    logits.insert(logits.end(), row.begin(), row.end());
  }
  std::vector<int32_t> tokens(1 + drafted.size());
  const int32_t taken = take_drafted(slot.view(), drafted, logits, slot.seen, tokens, scratch);
  for (size_t i = static_cast<size_t>(taken); i < tokens.size(); ++i) EXPECT_EQ(tokens[i], -1);
  tokens.resize(static_cast<size_t>(taken));
  return tokens;
}

/// Every draft of one wrong place, and the right one: as one at a time, to the bit of every state.
TEST(TakeDrafted, GivesWhatOneTokenAtATimeGives) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SlotRule rule = rule_with_eos({static_cast<int32_t>(seed % 4)});
    rule.parameters = {.do_sample = seed % 3 != 0, .top_p = 0.9f, .repetition_penalty = 1.4f, .seed = seed};
    rule.min_new_tokens = static_cast<int32_t>(seed % 5);
    rule.max_new_tokens = 3 + static_cast<int32_t>(seed % 6);
    Slot reference(rule);
    const std::vector<int32_t> truth = one_by_one(reference, 5);
    for (size_t wrong = 0; wrong <= truth.size(); ++wrong) {
      std::vector<int32_t> draft(truth.begin(), truth.end() - 1);
      if (wrong < draft.size()) draft[wrong] = (draft[wrong] + 1) % static_cast<int32_t>(kVocabulary);
      Slot slot(rule);
      const std::vector<int32_t> tokens = by_draft(slot, draft);
      EXPECT_EQ(tokens.size(), wrong < draft.size() ? wrong + 1 : truth.size());
      Slot expected(rule);
      EXPECT_EQ(tokens, one_by_one(expected, tokens.size()));
      EXPECT_EQ(slot.last_id, expected.last_id);
      EXPECT_EQ(slot.output_index, expected.output_index);
      EXPECT_EQ(slot.finished, expected.finished);
      EXPECT_EQ(slot.seen, expected.seen);
    }
  }
}

TEST(TakeDrafted, TakesNothingAfterAnEndTokenThatWasDrafted) {
  Slot slot(rule_with_eos({5}));
  Scratch scratch(kVocabulary);
  std::vector<float> logits;
  for (const int32_t id : {5, 6, 7}) {
    const std::vector<float> row = one_likely(id);
    logits.insert(logits.end(), row.begin(), row.end());
  }
  std::vector<int32_t> tokens(3);
  EXPECT_EQ(take_drafted(slot.view(), std::vector{5, 6}, logits, slot.seen, tokens, scratch), 1);
  EXPECT_THAT(tokens, ElementsAre(5, -1, -1));
  EXPECT_EQ(slot.finished, 1);
}

TEST(TakeDrafted, TreatsIdZeroAsAnyOther) {
  Slot slot(rule_with_eos({}));
  Scratch scratch(kVocabulary);
  std::vector<float> logits;
  for (int row = 0; row < 3; ++row) {
    const std::vector<float> zero = one_likely(0);
    logits.insert(logits.end(), zero.begin(), zero.end());
  }
  std::vector<int32_t> tokens(3);
  EXPECT_EQ(take_drafted(slot.view(), std::vector{0, 0}, logits, slot.seen, tokens, scratch), 3);
  EXPECT_THAT(tokens, ElementsAre(0, 0, 0));
}

}  // namespace
}  // namespace lockstep::sampling
