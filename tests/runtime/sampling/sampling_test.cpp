#include "runtime/sampling/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "runtime/core/check.h"
#include "runtime/sampling/exponential.h"
#include "tests/runtime/sampling/by_definition.h"

namespace lockstep::sampling {
namespace {

using ::testing::ElementsAre;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

int32_t choose_from(const std::vector<float>& logits, const Parameters& parameters, uint32_t output_index = 0) {
  Scratch scratch(static_cast<int64_t>(logits.size()));
  const std::vector<uint8_t> seen(logits.size(), 0);
  return choose(logits, seen, parameters, output_index, scratch);
}

std::vector<float> processed(const std::vector<float>& logits, const std::vector<uint8_t>& seen,
                             const Parameters& parameters) {
  Scratch scratch(static_cast<int64_t>(logits.size()));
  std::vector<float> scores(logits.size());
  processed_scores(logits, seen, parameters, scores, scratch);
  return scores;
}

// ---- greedy and the odd numbers -----------------------------------------------------------------------------------

TEST(ChooseGreedy, TakesTheHighestAndTheLowestIdOfATie) {
  EXPECT_EQ(choose_from({1, 3, 2}, {}), 1);
  EXPECT_EQ(choose_from({1, 3, 3, 3}, {}), 1);
  EXPECT_EQ(choose_from({-1}, {}), 0);
}

TEST(ChooseGreedy, LooksAtTheScoreAfterThePenaltyAndIgnoresTheRest) {
  const Parameters parameters{.temperature = 0.1f, .top_k = 1, .top_p = 0.1f, .repetition_penalty = 2.0f};
  Scratch scratch(3);
  const std::vector<float> logits{-1.0f, 4.0f, 3.0f};
  EXPECT_EQ(choose(logits, std::vector<uint8_t>{0, 1, 0}, parameters, 0, scratch), 2);
  EXPECT_THAT(processed(logits, {1, 1, 0}, parameters), ElementsAre(-2.0f, 2.0f, 3.0f));
}

TEST(ChooseGreedy, TakesTheSameInOnePassAsAfterProcessing) {
  std::mt19937 random(7);
  const std::vector<int32_t> nobody = {-1};  // outside the vocabulary: forbids nothing, but is looked at
  for (const int size : {1, 7, 8, 1023, 1024, 1025, 3000, 4096}) {
    for (int round = 0; round < 50; ++round) {
      std::vector<float> logits(static_cast<size_t>(size));
      for (float& logit : logits) {
        const auto draw = static_cast<int>(random() % 40);  // few values: ties everywhere
        logit = draw == 39 ? kNaN : draw == 38 ? -kInfinity : static_cast<float>(draw - round);
      }
      Scratch scratch(size);
      const std::vector<uint8_t> seen(logits.size(), 0);
      const int32_t processed = choose(logits, seen, {}, 0, scratch, nobody);
      EXPECT_EQ(choose(logits, seen, {}, 0, scratch), processed) << size << " " << round;
    }
  }
}

TEST(Choose, NeverTakesNaN) {
  for (bool do_sample : {false, true}) {
    EXPECT_EQ(choose_from({kNaN, -5, kNaN}, {.do_sample = do_sample}), 1);
    EXPECT_EQ(choose_from({kNaN, kNaN, -kInfinity}, {.do_sample = do_sample}), 2);
    EXPECT_EQ(choose_from({kNaN, kNaN}, {.do_sample = do_sample}), 0);  // nothing better exists
  }
}

TEST(Choose, TakesTheLowestIdWhenEveryScoreIsMinusInfinity) {
  for (bool do_sample : {false, true}) {
    EXPECT_EQ(choose_from({-kInfinity, -kInfinity}, {.do_sample = do_sample, .top_k = 1, .top_p = 0.5f}), 0);
  }
}

TEST(Choose, TreatsPlusInfinityAsCertain) {
  bool was_taken[4] = {};
  for (uint32_t i = 0; i < 100; ++i)
    was_taken[choose_from({1, kInfinity, 5, kInfinity}, {.do_sample = true}, i)] = true;
  EXPECT_THAT(was_taken, ElementsAre(false, true, false, true));
}

TEST(Choose, StaysExactAtATinyTemperature) {
  for (float temperature : {1e-3f, 1e-38f, 1e-45f}) {
    EXPECT_EQ(choose_from({-3, -1, -2}, {.do_sample = true, .temperature = temperature}), 1);
    EXPECT_EQ(choose_from({3, 9, 8}, {.do_sample = true, .temperature = temperature}), 1);
  }
}

TEST(Choose, NeverTakesAnExcludedId) {
  const std::vector<float> logits{0.5f, 1.5f, -kInfinity, 1.0f, kNaN, -200.0f};
  for (uint32_t i = 0; i < 2000; ++i) {
    const int32_t id = choose_from(logits, {.do_sample = true}, i);
    EXPECT_TRUE(id == 0 || id == 1 || id == 3) << id;
  }
}

TEST(Choose, RefusesWhatDoesNotFitItsScratch) {
  Scratch scratch(2);
  const std::vector<float> logits{1, 2, 3};
  EXPECT_THROW(choose(logits, {}, {}, 0, scratch), CheckFailure);
  EXPECT_THROW(choose(std::span(logits).first(2), {}, {.repetition_penalty = 2}, 0, scratch), CheckFailure);
  EXPECT_EQ(choose(std::span(logits).first(2), {}, {}, 0, scratch), 1);  // no penalty: `seen` is not needed
}

// ---- the processors -----------------------------------------------------------------------------------------------

TEST(ProcessedScores, EqualThoseOfTheReferenceProcessors) {
  const nlohmann::json golden = nlohmann::json::parse(std::ifstream(LOCKSTEP_SAMPLING_GOLDENS));
  ASSERT_GE(golden["cases"].size(), 50u);
  for (const auto& item : golden["cases"]) {
    const std::vector<float> logits = item["logits"];
    const std::vector<bool> was_seen = item["seen"];
    const std::vector<uint8_t> seen(was_seen.begin(), was_seen.end());
    const Parameters parameters{.do_sample = true,
                                .temperature = item["temperature"],
                                .top_k = item["top_k"],
                                .top_p = item["top_p"],
                                .min_p = item["min_p"],
                                .repetition_penalty = item["repetition_penalty"],
                                .typical_p = item["typical_p"],
                                .epsilon_cutoff = item["epsilon_cutoff"],
                                .eta_cutoff = item["eta_cutoff"]};
    const std::vector<float> scores = processed(logits, seen, parameters);
    for (size_t i = 0; i < scores.size(); ++i) {
      const auto& expected = item["scores"][i];
      EXPECT_EQ(scores[i], expected.is_null() ? -kInfinity : expected.get<float>()) << item << " id " << i;
    }
  }
}

TEST(ProcessedScores, KeepEveryTieOfTheKthScore) {
  EXPECT_THAT(processed({1, 2, 2, 3, 2}, {}, {.do_sample = true, .top_k = 2}), ElementsAre(-kInfinity, 2, 2, 3, 2));
  EXPECT_THAT(processed({1, 2}, {}, {.do_sample = true, .top_k = 7}), ElementsAre(1, 2));
  EXPECT_THAT(processed({1, -kInfinity, 2}, {}, {.do_sample = true, .top_k = 2}), ElementsAre(1, -kInfinity, 2));
}

TEST(ProcessedScores, DropAShareOfExactlyOneMinusP) {
  // Probabilities 0.3, 0.1, 0.1, 0.5: the two lowest are 0.2 together, and top-p 0.8 drops shares up to 0.2.
  std::vector<float> scores;
  for (double p : {0.3, 0.1, 0.1, 0.5}) scores.push_back(static_cast<float>(std::log(p)));
  const std::vector<float> kept = processed(scores, {}, {.do_sample = true, .top_p = 0.8f});
  EXPECT_THAT(kept, ElementsAre(scores[0], -kInfinity, -kInfinity, scores[3]));
}

TEST(ProcessedScores, DropTheLowerIdsOfATieAtTheTopPBoundary) {
  EXPECT_THAT(processed({1, 1, 1, 1}, {}, {.do_sample = true, .top_p = 0.6f}), ElementsAre(-kInfinity, 1, 1, 1));
}

TEST(ProcessedScores, AlwaysKeepOne) {
  EXPECT_THAT(processed({1, 3, 2}, {}, {.do_sample = true, .top_p = 0.0f}), ElementsAre(-kInfinity, 3, -kInfinity));
  EXPECT_THAT(processed({1, 3, 2}, {}, {.do_sample = true, .min_p = 1.0f}), ElementsAre(-kInfinity, 3, -kInfinity));
}

/// Tolerance: none. Both sides take the same weights, and the top-p sums of the definition are f64 like ours;
/// vocabularies of 1 to 4000 with ties make every bin boundary occur.
TEST(ProcessedScores, EqualAFullSortOnManyVocabularies) {
  for (uint32_t trial = 0; trial < 400; ++trial) {
    uint32_t draws = 0;
    const auto random = [&](uint32_t below) { return philox(trial, 7, draws++, 0).word[0] % below; };
    const size_t size = 1 + random(trial % 10 == 0 ? 4000 : 60);
    const float spread = trial % 3 == 0 ? 0.01f : trial % 3 == 1 ? 0.3f : 4.0f;
    std::vector<float> logits(size);
    for (float& logit : logits) logit = spread * static_cast<float>(static_cast<int>(random(41)) - 20);
    Parameters parameters{.do_sample = true, .temperature = 0.7f};
    if (random(2)) parameters.top_k = static_cast<int32_t>(1 + random(static_cast<uint32_t>(size)));
    if (random(2)) parameters.top_p = 0.01f * static_cast<float>(random(100));
    if (random(3) == 0) parameters.min_p = 0.01f * static_cast<float>(random(100));
    if (random(3) == 0) parameters.typical_p = 0.01f * static_cast<float>(1 + random(99));
    if (random(3) == 0) parameters.epsilon_cutoff = 0.001f * static_cast<float>(random(100));
    if (random(3) == 0) parameters.eta_cutoff = 0.01f * static_cast<float>(random(100));
    EXPECT_EQ(processed(logits, {}, parameters), scores_by_definition(logits, parameters)) << "trial " << trial;
  }
}

// Vectors of transformers' test_logits_process.py: three ids of one probability and one below, and the like.

std::vector<float> logarithms(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

std::vector<int> kept(const std::vector<double>& probabilities, const Parameters& parameters) {
  std::vector<int> ids;
  const std::vector<float> scores = processed(logarithms(probabilities), {}, parameters);
  for (size_t id = 0; id < scores.size(); ++id) {
    if (scores[id] > -kInfinity) ids.push_back(static_cast<int>(id));
  }
  return ids;
}

TEST(ProcessedScores, MayDropTheLikeliestWhenItIsNotTypical) {
  EXPECT_THAT(kept({0.97, 0.01, 0.01, 0.01}, {.do_sample = true, .typical_p = 0.5f}), ElementsAre(0));
  EXPECT_THAT(kept({0.4, 0.2, 0.2, 0.2}, {.do_sample = true, .typical_p = 0.5f}), ElementsAre(1, 2, 3));
  const std::vector<double> probabilities{0.4, 0.2, 0.2, 0.2};
  for (uint32_t i = 0; i < 100; ++i) {
    const Parameters parameters{.do_sample = true, .typical_p = 0.5f};
    EXPECT_NE(choose_from(logarithms(probabilities), parameters, i), 0);
  }
}

TEST(ProcessedScores, DropWhatIsLessProbableThanEpsilonButTheLikeliest) {
  EXPECT_THAT(kept({0.87, 0.099, 0.001, 0.03}, {.do_sample = true, .epsilon_cutoff = 0.1f}), ElementsAre(0));
  EXPECT_THAT(kept({0.4, 0.299, 0.101, 0.2}, {.do_sample = true, .epsilon_cutoff = 0.1f}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(kept({0.3, 0.3, 0.4}, {.do_sample = true, .epsilon_cutoff = 0.9f}), ElementsAre(2));
}

TEST(ProcessedScores, DropLessTheMoreIsOpenWithEta) {
  EXPECT_THAT(kept({0.0, 0.1, 0.8, 0.1}, {.do_sample = true, .eta_cutoff = 0.0625f}), ElementsAre(1, 2, 3));
  EXPECT_THAT(kept({0.01, 0.04, 0.9, 0.05}, {.do_sample = true, .eta_cutoff = 0.0625f}), ElementsAre(2));
}

TEST(ProcessedScores, LeaveOutForbiddenIds) {
  Scratch scratch(3);
  std::vector<float> scores(3);
  const std::vector<float> logits{1, 3, 2};
  const std::vector<int32_t> forbidden{1, -1, 99};
  processed_scores(logits, {}, {}, scores, scratch, forbidden);
  EXPECT_THAT(scores, ElementsAre(1, -kInfinity, 2));
  EXPECT_EQ(choose(logits, {}, {}, 0, scratch, forbidden), 2);
  EXPECT_EQ(choose(logits, {}, {.do_sample = true, .top_k = 1}, 0, scratch, forbidden), 2);
}

TEST(ProcessedScores, AreThoseThatChooseDrawsFrom) {
  const std::vector<float> logits{2, 1, 0, -1, -2, 1.5f};
  const Parameters parameters{.do_sample = true, .top_k = 4, .top_p = 0.8f};
  const std::vector<float> scores = processed(logits, {}, parameters);
  std::vector<bool> was_taken(logits.size(), false);
  for (uint32_t i = 0; i < 500; ++i) was_taken[static_cast<size_t>(choose_from(logits, parameters, i))] = true;
  for (size_t i = 0; i < logits.size(); ++i) EXPECT_EQ(was_taken[i], scores[i] > -kInfinity) << i;
}

TEST(ExpNonpositive, IsWithinTwoUnitsInTheLastPlace) {
  for (float x = 0.0f; x > -87.0f; x -= 0.00173f) {
    const double exact = std::exp(static_cast<double>(x));
    ASSERT_NEAR(exp_nonpositive(x), exact, exact * 2 * 0x1p-23) << x;
  }
  EXPECT_EQ(exp_nonpositive(0.0f), 1.0f);
  EXPECT_EQ(exp_nonpositive(-88.0f), 0.0f);
  EXPECT_EQ(exp_nonpositive(-kInfinity), 0.0f);
}

// ---- random numbers -----------------------------------------------------------------------------------------------

/// The known answers that were published with the generator (Random123, kat_vectors, "philox4x32 10").
TEST(Philox, GivesThePublishedKnownAnswers) {
  constexpr uint32_t kOnes = 0xffffffffu;
  EXPECT_THAT(philox({0, 0}, {0, 0, 0, 0}).word, ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  EXPECT_THAT(philox({kOnes, kOnes}, {kOnes, kOnes, kOnes, kOnes}).word,
              ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  EXPECT_THAT(philox({0xa4093822u, 0x299f31d0u}, {0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}).word,
              ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
  EXPECT_THAT(philox(0, 0, 0, 0).word, ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
}

TEST(Uniform, IsTheUpper24BitsOfTheFirstWord) {
  EXPECT_EQ(uniform(0, 0), static_cast<float>(0x6627e8u) * 0x1p-24f);
  for (uint32_t i = 0; i < 10000; ++i) {
    const float u = uniform(99, i);
    EXPECT_TRUE(0.0f <= u && u < 1.0f) << u;
  }
}

TEST(RowSeed, DiffersBetweenRowsAndFromTheDraws) {
  EXPECT_NE(row_seed(1, 0), row_seed(1, 1));
  EXPECT_NE(row_seed(1, 0), row_seed(2, 0));
  EXPECT_NE(row_seed(1, 0), row_seed(1, uint64_t{1} << 32));
  EXPECT_EQ(row_seed(1, 5), row_seed(1, 5));
  const RandomBits draw = philox(1, 0, 0, 0);
  EXPECT_NE(static_cast<uint32_t>(row_seed(1, 0)), draw.word[0]);
}

}  // namespace
}  // namespace lockstep::sampling
