#include "runtime/generation/beam_chooser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "runtime/generation/log_softmax.h"
#include "tests/runtime/generation/hash_requests.h"

namespace lockstep::generation {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Ids = std::vector<int32_t>;

GenerationConfig beams(int32_t count, int32_t returned) {
  GenerationConfig config;
  config.num_beams = count;
  config.num_return_sequences = returned;
  return config;
}

TEST(BeamChooser, PrefillsOneRowAndCopiesIt) {
  const auto chooser = make_chooser(request_of(beams(3, 1))).value();
  EXPECT_EQ(chooser->rows(), 3);
  EXPECT_THAT(chooser->prompts(), ElementsAre(Ids{7, 3, 9}, Ids{}, Ids{}));
  std::vector<float> logits(3 * kVocabulary, std::nanf(""));  // rows without a prompt hold anything
  for (size_t i = 0; i < kVocabulary; ++i) logits[i] = static_cast<float>(i);
  EXPECT_EQ(chooser->choose(logits), (Choice{.tokens = {29, 28, 27}, .sources = {0, 0, 0}, .finished = false}));
  EXPECT_THAT(chooser->certain(), IsEmpty());
}

TEST(BeamChooser, LetsBeamsGoOnFromEachOther) {
  const auto chooser = make_chooser(request_of(beams(2, 1))).value();
  std::vector<float> logits(2 * kVocabulary, 0.0f);
  logits[1] = 5.0f;
  logits[2] = 4.5f;
  EXPECT_THAT(chooser->choose(logits).tokens, ElementsAre(1, 2));
  std::ranges::fill(logits, 0.0f);
  logits[kVocabulary + 8] = 20.0f;  // beam 1 is sure of its two next, beam 0 of nothing
  logits[kVocabulary + 9] = 19.5f;
  EXPECT_EQ(chooser->choose(logits), (Choice{.tokens = {8, 9}, .sources = {1, 1}, .finished = false}));
}

TEST(BeamChooser, EndsOnlyTheBestOfTheDrawnContinuations) {
  GenerationConfig config = beams(2, 1);
  config.do_sample = true;
  config.top_k = 3;
  config.eos_token_ids = {0};
  for (uint64_t seed = 0; seed < 20; ++seed) {  // all three are drawn, in any order
    config.seed = seed;
    const auto chooser = make_chooser(request_of(config)).value();
    std::vector<float> logits(2 * kVocabulary, 0.0f);
    logits[0] = 9.0f;
    logits[4] = 9.5f;
    logits[5] = 9.4f;
    EXPECT_THAT(chooser->choose(logits).tokens, ElementsAre(4, 5));
    EXPECT_THAT(chooser->sequences()[0].ids, IsEmpty()) << "two continuations are better than the end";
  }
}

TEST(BeamChooser, ReturnsEndedBeamsBeforeFreePlaces) {
  GenerationConfig config = beams(2, 2);
  config.forced_eos_token_ids = {5};  // one continuation of one beam; the other beam has no score yet
  for (const Sequence& answer : run(request_of(config, 1))) EXPECT_THAT(answer.ids, ElementsAre(5));
}

TEST(BeamChooser, FindsTheLikeliestOfAllSequencesWhenItIsWideEnough) {
  constexpr int64_t kFew = 5;
  GenerationConfig config = beams(25, 25);
  config.length_penalty = 0.0;
  ChooserRequest request = request_of(config, 3);
  request.vocabulary = kFew;
  request.prompt = {1};
  request.max_length = 4;
  const auto chooser = make_chooser(request).value();
  run_on_hash_model(*chooser, kFew);

  std::vector<std::pair<double, Ids>> all;
  for (int32_t code = 0; code < kFew * kFew * kFew; ++code) {
    Ids ids{1};
    double sum = 0.0;
    for (int32_t i = 0, rest = code; i < 3; ++i, rest /= kFew) {
      std::vector<float> logits = hash_logits(ids, kFew);
      log_softmax(logits);
      ids.push_back(rest % static_cast<int32_t>(kFew));
      sum += logits[static_cast<size_t>(ids.back())];
    }
    all.emplace_back(sum, Ids(ids.begin() + 1, ids.end()));
  }
  std::ranges::sort(all, std::greater<>());
  const std::vector<Sequence> found = chooser->sequences();
  ASSERT_EQ(found.size(), 25u);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].ids, all[i].second) << i;
}

TEST(BeamChooser, ReturnsItsAnswersBestFirst) {
  GenerationConfig config = beams(4, 4);
  config.eos_token_ids = {1, 2};
  const std::vector<Sequence> answers = run(request_of(config));
  ASSERT_EQ(answers.size(), 4u);
  for (size_t i = 1; i < 4; ++i) EXPECT_GE(answers[i - 1].score, answers[i].score);
}

TEST(BeamChooser, SurvivesScoresThatAreNoNumbersAndVocabulariesSmallerThanItsBeams) {
  ChooserRequest request = request_of(beams(5, 5), 3);
  request.vocabulary = 2;
  const auto chooser = make_chooser(request).value();
  run_on_hash_model(*chooser, 2);
  EXPECT_EQ(chooser->sequences().size(), 5u);
  const auto copies = make_chooser(request).value();
  EXPECT_THAT(copies->choose(std::vector<float>(10, 0.0f)).sources, ElementsAre(0, 0, 0, 0, 0));  // only row 0 exists
  const auto unlucky = make_chooser(request).value();
  for (int i = 0; i < 3; ++i) unlucky->choose(std::vector<float>(10, std::nanf("")));
}

TEST(BeamChooser, DrawsTheSameForASeedAndOtherwiseForAnother) {
  GenerationConfig config = beams(3, 3);
  config.do_sample = true;
  const auto ids_of_seed = [&](uint64_t seed) {
    config.seed = seed;
    return run(request_of(config))[0].ids;
  };
  EXPECT_EQ(ids_of_seed(1), ids_of_seed(1));
  EXPECT_NE(ids_of_seed(1), ids_of_seed(2));
}

/// The chance that `last` is left where all others of `shares` above 0 are drawn one by one, without replacement.
double chance_of_last(const std::vector<double>& shares, size_t last) {
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  if (total == shares[last]) return 1.0;
  double chance = 0.0;
  for (size_t i = 0; i < shares.size(); ++i) {
    if (i == last || shares[i] == 0.0) continue;
    std::vector<double> rest = shares;
    rest[i] = 0.0;
    chance += shares[i] / total * chance_of_last(rest, last);
  }
  return chance;
}

/// Four of five tokens are drawn, and the best two of them end: other ones than 0 and 1 if one of these is left. A
/// chi-square statistic with 2 degrees of freedom above 2 + 6·sqrt(4) + 6 has a chance below 1e-4, and with fixed seeds
/// the outcome never changes.
TEST(BeamChooser, DrawsContinuationsByTheirProbability) {
  const std::vector<double> p{0.4, 0.3, 0.15, 0.1, 0.05};
  std::vector<float> logits;
  for (int row = 0; row < 2; ++row) {
    for (const double share : p) logits.push_back(static_cast<float>(std::log(share)));
  }
  GenerationConfig config = beams(2, 2);
  config.do_sample = true;
  config.top_k = 0;
  ChooserRequest request = request_of(config, 1);
  request.vocabulary = 5;
  constexpr int kTrials = 20000;
  std::map<std::pair<int32_t, int32_t>, int> counts;
  for (int trial = 0; trial < kTrials; ++trial) {
    request.row = static_cast<uint64_t>(trial);
    const auto chooser = make_chooser(request).value();
    chooser->choose(logits);
    const std::vector<Sequence> answers = chooser->sequences();
    ++counts[std::minmax(answers[0].ids[0], answers[1].ids[0])];
  }
  const double without_0 = chance_of_last(p, 0), without_1 = chance_of_last(p, 1);
  const std::tuple<int32_t, int32_t, double> expected[] = {
      {1, 2, without_0}, {0, 2, without_1}, {0, 1, 1 - without_0 - without_1}};
  double statistic = 0.0;
  for (const auto& [first, second, chance] : expected) {
    const double difference = counts[{first, second}] - kTrials * chance;
    statistic += difference * difference / (kTrials * chance);
  }
  EXPECT_EQ(counts.size(), std::size(expected));
  EXPECT_LT(statistic, 2 + 6 * std::sqrt(4.0) + 6);
}

}  // namespace
}  // namespace lockstep::generation
