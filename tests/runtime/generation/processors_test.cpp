// Cases of transformers' test_logits_process.py, and cases that the goldens do not cover: users' processors, functions,
// special numbers, and equal results of host and graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/core/check.h"
#include "runtime/generation/draw_processors.h"
#include "runtime/generation/make_processors.h"
#include "runtime/generation/option_rows.h"
#include "runtime/generation/repetition_processors.h"
#include "tests/runtime/generation/hash_model.h"

namespace lockstep::generation {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Ids = std::vector<int32_t>;
using Scores = std::vector<float>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Scores after(const LogitsProcessor& processor, const Ids& ids, Scores scores) {
  processor.process(ids, scores);
  return scores;
}

std::vector<size_t> excluded(const Scores& scores) {
  std::vector<size_t> ids;
  for (size_t id = 0; id < scores.size(); ++id) {
    if (scores[id] == -kInfinity) ids.push_back(id);
  }
  return ids;
}

// ---- one by one ---------------------------------------------------------------------------------------------------

TEST(RepetitionPenalty, CountsAnIdOnceAndMayPassOverThePrompt) {
  const Scores scores{0.5f, -0.25f, 0.5f, 1.0f};
  EXPECT_THAT(after(RepetitionPenalty(2.0), {0, 0, 1}, scores), ElementsAre(0.25f, -0.5f, 0.5f, 1.0f));
  EXPECT_THAT(after(RepetitionPenalty(2.0, 2), {0, 0, 1}, scores), ElementsAre(0.5f, -0.5f, 0.5f, 1.0f));
  EXPECT_THAT(after(RepetitionPenalty(2.0, 9), {0, 0, 1}, scores), ElementsAre(0.5f, -0.25f, 0.5f, 1.0f));
  EXPECT_THAT(after(RepetitionPenalty(2.0), {99}, scores), ElementsAre(0.5f, -0.25f, 0.5f, 1.0f));
}

TEST(PromptPenalty, RaisesThePromptsIds) {
  EXPECT_THAT(after(PromptPenalty(2.0, Ids{0, 1}), {2, 3}, {0.5f, -0.25f, 0.5f}), ElementsAre(1.0f, -0.125f, 0.5f));
}

TEST(AnswerPenalty, CountsTheIdsBehindThePrompt) {
  const Scores scores{0.5f, -0.25f, 0.5f, 1.0f};
  EXPECT_THAT(after(AnswerPenalty(0.5, 0.25, 2), {3, 3, 0, 1, 0}, scores), ElementsAre(-0.5f, -1.0f, 0.5f, 1.0f));
  EXPECT_THAT(after(AnswerPenalty(-0.5, 0.0, 0), {2, 99}, scores), ElementsAre(0.5f, -0.25f, 1.0f, 1.0f));
  EXPECT_THAT(after(AnswerPenalty(1.0, 1.0, 9), {0, 1}, scores), ElementsAre(0.5f, -0.25f, 0.5f, 1.0f));
}

TEST(AnswerPenalty, JoinsTheChainWhenEitherOptionIsSetAndLeavesTheGraphs) {
  GenerationConfig config;
  ASSERT_TRUE(config.set("frequency_penalty", "0.5").has_value());
  EXPECT_THAT(host_choices(config), ElementsAre("frequency_penalty"));
  const Ids prompt{0};
  const auto chain = make_processors(config, {.prompt = prompt, .max_length = 9, .vocabulary = 3}).value();
  Scores scores{0.0f, 0.0f, 0.0f};
  chain.process(Ids{0, 1, 1}, scores);
  EXPECT_THAT(scores, ElementsAre(0.0f, -1.0f, 0.0f));
}

TEST(NoRepeatNgram, ExcludesWhatWouldCompleteARunAgain) {
  const Scores zero(3, 0.0f);
  EXPECT_THAT(excluded(after(NoRepeatNgram(2), {1, 1, 2, 1}, zero)), ElementsAre(1, 2));
  EXPECT_THAT(excluded(after(NoRepeatNgram(3), {1, 1, 2, 1}, zero)), IsEmpty());
  EXPECT_THAT(excluded(after(NoRepeatNgram(2), {0, 1, 0, 1}, zero)), ElementsAre(0));
  EXPECT_THAT(excluded(after(NoRepeatNgram(3), {0, 1, 0, 1}, zero)), ElementsAre(0));
  EXPECT_THAT(excluded(after(NoRepeatNgram(5), {0, 1}, zero)), IsEmpty());
}

TEST(NoPromptNgram, ExcludesWhatWouldCompleteARunOfThePrompt) {
  const Scores zero(4, 0.0f);
  EXPECT_THAT(excluded(after(NoPromptNgram(2, Ids{1, 2, 1, 3}), {0, 1}, zero)), ElementsAre(2, 3));
  EXPECT_THAT(excluded(after(NoPromptNgram(3, Ids{1, 2, 1, 3}), {2, 1}, zero)), ElementsAre(3));
  EXPECT_THAT(excluded(after(NoPromptNgram(3, Ids{1, 2, 1, 3}), {1}, zero)), IsEmpty());
}

TEST(SequenceBias, AddsToTheLastIdOfASequenceThatTheRowBegan) {
  const std::vector<BiasedSequence> biases{{{4}, 100.0}, {{1, 1}, 100.0}, {{0, 4}, 7.0}, {{1, 2, 1}, 3.0}};
  const SequenceBias processor(biases);
  EXPECT_THAT(after(processor, {3, 0}, Scores(5, 0.0f)), ElementsAre(0, 0, 0, 0, 107));
  EXPECT_THAT(after(processor, {1, 2}, Scores(5, 0.0f)), ElementsAre(0, 3, 0, 0, 100));
  EXPECT_THAT(after(processor, {1}, Scores(5, 0.0f)), ElementsAre(0, 100, 0, 0, 100));
}

TEST(SequenceBias, TakesTheLastBiasOfEqualSequences) {
  const std::vector<BiasedSequence> biases{{{1}, 5.0}, {{1}, 2.0}};
  EXPECT_THAT(after(SequenceBias(biases), {0}, {0, 0}), ElementsAre(0, 2));
}

TEST(BadWords, ExcludesWordsThatTheRowBeganButNoLoneEndToken) {
  const std::vector<Ids> words{{4}, {1, 0}, {0, 2, 3}, {2}};
  const BadWords processor(words, Ids{2});
  EXPECT_THAT(excluded(after(processor, {0, 1}, Scores(5, 0.0f))), ElementsAre(0, 4));
  EXPECT_THAT(excluded(after(processor, {0, 2}, Scores(5, 0.0f))), ElementsAre(3, 4));
  EXPECT_THAT(excluded(after(BadWords(std::vector<Ids>{{2}}, Ids{2}), {0}, Scores(5, 0.0f))), IsEmpty());
}

TEST(MinLength, ExcludesEndTokensOfShortRows) {
  EXPECT_THAT(excluded(after(MinLength(3, {0, 1}), {5, 5}, Scores(4, 0.0f))), ElementsAre(0, 1));
  EXPECT_THAT(excluded(after(MinLength(3, {0, 1}), {5, 5, 5}, Scores(4, 0.0f))), IsEmpty());
}

TEST(ForcedTokens, AreTheOnlyChoiceInTheirPlace) {
  EXPECT_THAT(after(ForcedFirst(1), {7}, {5, 5, 5}), ElementsAre(-kInfinity, 0, -kInfinity));
  EXPECT_THAT(after(ForcedFirst(1), {7, 8}, {5, 5, 5}), ElementsAre(5, 5, 5));
  EXPECT_THAT(after(ForcedLast(5, {0, 2}), {7, 7, 7, 7}, {5, 5, 5}), ElementsAre(0, -kInfinity, 0));
  EXPECT_THAT(after(ForcedLast(5, {0}), {7, 7, 7}, {5, 5, 5}), ElementsAre(5, 5, 5));
}

TEST(RemoveInvalid, MakesScoresFinite) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  EXPECT_THAT(after(RemoveInvalid(), {}, {0.5f, kNaN, kInfinity, -kInfinity}),
              ElementsAre(0.5f, 0.0f, kLargest, -kLargest));
}

TEST(LengthDecayPenalty, FavoursEndTokensAfterItsStartWhateverTheirSign) {
  const LengthDecayPenalty processor({.start = 5, .factor = 1.5}, /*prompt_length=*/2, {0, 1});
  EXPECT_THAT(after(processor, Ids(7), {2, -2, 1}), ElementsAre(2, -2, 1));
  EXPECT_THAT(after(processor, Ids(8), {2, -2, 1}), ElementsAre(3, -1, 1));
  EXPECT_THAT(after(processor, Ids(9), {2, -2, 1}), ElementsAre(4.5f, 0.5f, 1));
  EXPECT_THAT(after(processor, Ids(9), {-kInfinity, 1, 1}), ElementsAre(-kInfinity, 2.25f, 1));
  EXPECT_THAT(after(LengthDecayPenalty({.start = 5, .factor = 1.5}, 2, {1, 1}), Ids(8), {2, -2, 1}),
              ElementsAre(2, -1, 1));
}

TEST(Suppress, ExcludesAlwaysOrAtOnePlace) {
  EXPECT_THAT(excluded(after(Suppress({0, 2}), {1}, Scores(3, 0.0f))), ElementsAre(0, 2));
  EXPECT_THAT(excluded(after(SuppressAtBegin({0, 2}, 2), {1, 1}, Scores(3, 0.0f))), ElementsAre(0, 2));
  EXPECT_THAT(excluded(after(SuppressAtBegin({0, 2}, 2), {1, 1, 1}, Scores(3, 0.0f))), IsEmpty());
}

TEST(TopH, KeepsTheLikeliestWhileTheirEntropyIsUnderTheShare) {
  EXPECT_THAT(excluded(after(TopH(0.4), {}, {5, 1, 1, 1})), ElementsAre(1, 2, 3));
  EXPECT_THAT(excluded(after(TopH(0.5), {}, {1, 1, 1, 1})), ElementsAre(2, 3));
  EXPECT_THAT(excluded(after(TopH(0.01), {}, {1, 1, 1, 1})), ElementsAre(1, 2, 3));
  EXPECT_THAT(excluded(after(TopH(0.9), {}, {-kInfinity, 1, -kInfinity, 1})), ElementsAre(0, 2, 3));
  EXPECT_EQ(excluded(after(TopH(1.0), {}, Scores(150, 0.0f))).size(), 50u);
}

TEST(Renormalize, GivesLogarithmsOfProbabilities) {
  const Scores scores = after(Renormalize(), {}, {1.0f, -kInfinity, 2.0f, -3.0f});
  double sum = 0.0;
  for (const float score : scores) sum += std::exp(score);
  EXPECT_NEAR(sum, 1.0, 1e-6);
  EXPECT_EQ(scores[1], -kInfinity);
  EXPECT_NEAR(scores[2] - scores[0], 1.0, 1e-6);
}

// ---- a function of the prefix -------------------------------------------------------------------------------------

Ids even_after_even(int64_t, std::span<const int32_t> ids) { return ids.back() % 2 == 0 ? Ids{0, 2} : Ids{1, 3}; }

TEST(PrefixAllowed, ExcludesAllOthers) {
  const PrefixAllowed processor(even_after_even, 0);
  EXPECT_THAT(after(processor, {4}, {1, 2, 3, 4}), ElementsAre(1, -kInfinity, 3, -kInfinity));
  EXPECT_THAT(after(processor, {5}, {1, 2, 3, 4}), ElementsAre(-kInfinity, 2, -kInfinity, 4));
}

TEST(PrefixAllowed, LetsTheAllowedIdsBeChosenWhenNothingElseCan) {
  const PrefixAllowed processor(even_after_even, 0);
  EXPECT_THAT(after(processor, {4}, {-kInfinity, 2, -kInfinity, 4}), ElementsAre(0, -kInfinity, 0, -kInfinity));
  std::vector<Ids> rows{{4}, {5}};
  Scores scores{-kInfinity, 2, -kInfinity, 4, 1, 2, 3, 4};  // the second row has a way on
  processor.process_rows(rows, scores);
  EXPECT_THAT(excluded(scores), ElementsAre(0, 1, 2, 3, 4, 6));
}

TEST(PrefixAllowed, IsGivenTheRequestAndRefusesAnEmptyAnswer) {
  const PrefixAllowed processor([](int64_t request, std::span<const int32_t>) { return Ids(request == 7 ? 1 : 0); }, 7);
  EXPECT_THAT(excluded(after(processor, {4}, {1, 2})), ElementsAre(1));
  const PrefixAllowed empty([](int64_t, std::span<const int32_t>) { return Ids(); }, 7);
  EXPECT_THROW(after(empty, {4}, {1, 2}), CheckFailure);
}

// ---- the chain ----------------------------------------------------------------------------------------------------

/// A user's: adds 1 to every score.
class AddOne final : public LogitsProcessor {
 public:
  void process(std::span<const int32_t>, std::span<float> scores) const override {
    for (float& score : scores) score += 1.0f;
  }
};

TEST(MakeProcessors, PutsUsersBeforeSamplingAndLetsThemReplaceTheirKind) {
  GenerationConfig config;
  config.do_sample = true;
  config.temperature = 0.5;
  config.suppress_tokens = {0};
  UserProcessors users;
  users.processors = {std::make_shared<AddOne>(), std::make_shared<Suppress>(Ids{1})};
  const Ids prompt{1};
  const auto chain = make_processors(config, {.prompt = prompt, .max_length = 9, .vocabulary = 3}, users).value();
  Scores scores{1, 2, 3};
  chain.process(prompt, scores);
  EXPECT_THAT(scores, ElementsAre(4, -kInfinity, 8));
}

TEST(MakeProcessors, RefusesIdsOutsideTheVocabularyAndADecayWithoutEndTokens) {
  const Ids prompt{1};
  const RequestContext context{.prompt = prompt, .max_length = 9, .vocabulary = 8};
  GenerationConfig biased;
  biased.sequence_bias = {{{1, 8}, 2.0}};
  EXPECT_THAT(make_processors(biased, context).error().message, HasSubstr("sequence_bias: found id 8"));
  GenerationConfig decay;
  decay.exponential_decay_length_penalty = LengthDecay{2, 1.5};
  EXPECT_THAT(make_processors(decay, context).error().message, HasSubstr("eos_token_id"));
}

TEST(MakeProcessors, LetsMinNewTokensReplaceMinLength) {
  GenerationConfig config;
  config.eos_token_ids = {0};
  config.min_length = 9;
  const Ids prompt{5, 5};
  const auto ends_after = [&](size_t tokens) {
    const RequestContext context{.prompt = prompt, .max_length = 20, .vocabulary = 4};
    Ids ids = prompt;
    ids.resize(prompt.size() + tokens, 1);
    Scores scores(4, 0.0f);
    make_processors(config, context).value().process(ids, scores);
    return scores[0] == 0.0f;
  };
  EXPECT_FALSE(ends_after(6));
  EXPECT_TRUE(ends_after(7));
  config.min_new_tokens = 3;
  EXPECT_FALSE(ends_after(2));
  EXPECT_TRUE(ends_after(3));
  config.min_new_tokens = 0;
  EXPECT_TRUE(ends_after(0));
}

TEST(HostChoices, NameTheOptionsThatLeaveTheGraphs) {
  GenerationConfig config;
  config.do_sample = true;
  config.repetition_penalty = 1.5;
  config.min_new_tokens = 4;
  config.typical_p = 0.5;
  config.epsilon_cutoff = 0.1;
  config.eta_cutoff = 0.1;
  EXPECT_FALSE(needs_host_choice(config));
  config.no_repeat_ngram_size = 2;
  config.num_beams = 3;
  EXPECT_THAT(host_choices(config), ElementsAre("no_repeat_ngram_size", "num_beams"));
}

// ---- the two routes -----------------------------------------------------------------------------------------------

GenerationConfig random_graph_config(uint32_t trial) {
  uint32_t draws = 0;
  const auto random = [&](uint32_t below) { return sampling::philox(trial, 3, draws++, 0).word[0] % below; };
  const auto fraction = [&] { return 0.01 * (1 + random(99)); };
  GenerationConfig config;
  config.do_sample = random(4) != 0;
  config.seed = trial;
  config.temperature = 0.25 + fraction();
  config.eos_token_ids = {3, 4};
  config.min_new_tokens = static_cast<int32_t>(random(4));
  if (random(2) == 0) config.top_k = static_cast<int32_t>(random(60));
  if (random(2) == 0) config.top_p = fraction();
  if (random(2) == 0) config.min_p = 0.5 * fraction();
  if (random(2) == 0) config.typical_p = fraction();
  if (random(2) == 0) config.epsilon_cutoff = 0.2 * fraction();
  if (random(2) == 0) config.eta_cutoff = 0.5 * fraction();
  if (random(2) == 0) config.repetition_penalty = 0.5 + fraction();
  return config;
}

/// Tolerance: none. One definition, two places.
TEST(Routes, GiveEqualScoresForAllThatTheGraphsServe) {
  constexpr int64_t kVocabulary = 50;
  const Ids prompt{9, 4};
  sampling::Scratch scratch(kVocabulary);
  for (uint32_t trial = 0; trial < 400; ++trial) {
    const GenerationConfig config = random_graph_config(trial);
    ASSERT_FALSE(needs_host_choice(config));
    const auto chain = make_processors(config, {.prompt = prompt, .max_length = 99, .vocabulary = kVocabulary}).value();
    Ids ids = prompt;
    for (int32_t index = 0; index < 4; ++index) {
      const Scores logits = hash_logits(ids, kVocabulary);
      std::vector<uint8_t> seen(kVocabulary, 0);
      for (const int32_t id : ids) seen[static_cast<size_t>(id)] = 1;
      const Ids forbidden = index < config.min_new_tokens ? config.eos_token_ids : Ids();
      Scores graphs(kVocabulary);
      sampling::processed_scores(logits, seen, config.sampling(0), graphs, scratch, forbidden);
      Scores hosts = logits;
      chain.process(ids, hosts);
      EXPECT_EQ(hosts, graphs) << "trial " << trial << " token " << index;
      const auto output_index = static_cast<uint32_t>(index);
      ids.push_back(sampling::choose(logits, seen, config.sampling(0), output_index, scratch, forbidden));
    }
  }
}

}  // namespace
}  // namespace lockstep::generation
