// Compares with Hugging Face's generate() for the same options and logits. Tolerance of scores: 2e-6 of their
// size (at most 10), for softmaxes that sum in another order and precision; ids and excluded ids are equal.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/generation/choosers.h"
#include "runtime/generation/prompt_lookup.h"
#include "tests/runtime/generation/hash_model.h"

namespace lockstep::generation {
namespace {

using Json = nlohmann::json;

const Json& goldens() {
  static const Json goldens = Json::parse(std::ifstream(LOCKSTEP_GENERATION_GOLDENS));
  return goldens;
}

GenerationConfig config_of(const Json& options) {
  GenerationConfig config;
  for (const auto& [name, value] : options.items()) EXPECT_TRUE(config.set(name, value.dump()).has_value()) << name;
  return config;
}

void expect_scores(std::span<const float> scores, const Json& expected, const Json& item) {
  ASSERT_EQ(scores.size(), expected.size());
  for (size_t id = 0; id < scores.size(); ++id) {
    if (expected[id].is_null()) {
      EXPECT_EQ(scores[id], -std::numeric_limits<float>::infinity()) << item << " id " << id;
    } else {
      const double value = expected[id].get<double>();
      EXPECT_NEAR(scores[id], value, 2e-6 * (1 + std::abs(value))) << item << " id " << id;
    }
  }
}

TEST(MakeProcessors, GivesTheScoresOfTheReferenceChain) {
  const int64_t vocabulary = goldens()["vocabulary"];
  ASSERT_GE(goldens()["steps"].size(), 100u);
  for (const Json& item : goldens()["steps"]) {
    const GenerationConfig config = config_of(item["options"]);
    const std::vector<int32_t> prompt = item["prompt"];
    std::vector<int32_t> ids = prompt;
    for (const int32_t id : item["output"]) ids.push_back(id);
    const RequestContext context{
        .prompt = prompt, .max_length = config.max_length.value_or(1000), .vocabulary = vocabulary};
    const ProcessorChain chain = make_processors(config, context).value();
    std::vector<float> scores = hash_logits(ids, vocabulary);
    chain.process(ids, scores);
    expect_scores(scores, item["scores"], item);
  }
}

ChooserRequest request_of(const Json& item) {
  ChooserRequest request;
  request.config = config_of(item["options"]);
  request.config.output_scores = true;
  request.prompt = item["prompt"].get<std::vector<int32_t>>();
  request.negative_prompt = item["negative"].get<std::vector<int32_t>>();
  request.vocabulary = goldens()["vocabulary"];
  request.max_length = std::ssize(request.prompt) + *request.config.max_new_tokens;
  EXPECT_TRUE(request.config.validate().has_value()) << item;
  return request;
}

TEST(MakeChooser, GivesTheAnswersOfTheReferenceSearches) {
  ASSERT_EQ(goldens()["searches"].size(), 84u);
  for (const Json& item : goldens()["searches"]) {
    const ChooserRequest request = request_of(item);
    const auto chooser = make_chooser(request).value();
    EXPECT_EQ(run_on_hash_model(*chooser, request.vocabulary), item["steps"]) << item;
    const std::vector<Sequence> answers = chooser->sequences();
    ASSERT_EQ(answers.size(), item["sequences"].size());
    for (size_t a = 0; a < answers.size(); ++a) {
      EXPECT_EQ(answers[a].ids, item["sequences"][a].get<std::vector<int32_t>>()) << item << " answer " << a;
      ASSERT_EQ(answers[a].records.size(), answers[a].ids.size());
      if (item.contains("scores")) {
        const double score = item["scores"][a];
        EXPECT_NEAR(answers[a].score, score, 2e-6 * (1 + std::abs(score))) << item << " answer " << a;
      }
    }
    if (item.contains("last_scores")) expect_scores(answers[0].records.back()->scores, item["last_scores"], item);
  }
}

TEST(DraftByLookup, GivesTheCandidatesOfTheReference) {
  ASSERT_EQ(goldens()["lookups"].size(), 60u);
  for (const Json& item : goldens()["lookups"]) {
    const std::vector<int32_t> ids = item["ids"];
    const std::vector<int32_t> eos = item["eos"];
    const PromptLookup lookup{.tokens = item["tokens"], .ngram_size = item["ngram_size"]};
    EXPECT_EQ(draft_by_lookup(ids, lookup, item["max_length"], eos), item["draft"].get<std::vector<int32_t>>()) << item;
  }
}

}  // namespace
}  // namespace lockstep::generation
