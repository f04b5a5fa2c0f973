// Tests of an engine's slots and capacity for requests known before it opens.
#include "engine/requests/sizing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "lockstep/engine.h"
#include "tests/model/tiny_models.h"

namespace lockstep::requests {
namespace {

using model::kTinyLlama;
using model::TinyModel;
using ::testing::HasSubstr;

class SizingTest : public ::testing::Test {
 protected:
  GenerationConfig config(const std::map<std::string, std::string>& options = {}) const {
    GenerationConfig config = Model::open(folder_.path()).value().generation();
    config.max_new_tokens = 5;
    for (const auto& [name, value] : options) EXPECT_TRUE(config.set(name, value).has_value()) << name;
    return config;
  }

  Result<EngineOptions> sized(const std::vector<Prompt>& prompts, const GenerationConfig& config,
                              const EngineOptions& options = {}) const {
    return sized_for(Model::open(folder_.path()).value(), prompts, config, options);
  }

  void expect_refused(const Result<EngineOptions>& sized, const std::string& words) const {
    ASSERT_FALSE(sized.has_value()) << words;
    EXPECT_EQ(sized.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(sized.error().message, HasSubstr(words));
  }

  TinyModel folder_{kTinyLlama};
  const std::vector<Prompt> two_ = {{.ids = {1, 3, 4}}, {.ids = {5, 6}}};
};

TEST_F(SizingTest, HoldsTheLongestPromptAndItsNewTokensButTheLast) {
  const EngineOptions options = sized(two_, config()).value();
  EXPECT_EQ(options.slots, 2);
  EXPECT_EQ(options.capacity, 3 + 5 - 1);
}

TEST_F(SizingTest, KeepsWhatIsGiven) {
  const EngineOptions options = sized(two_, config(), {.slots = 5, .capacity = 40}).value();
  EXPECT_EQ(options.slots, 5);
  EXPECT_EQ(options.capacity, 40);
}

TEST_F(SizingTest, TakesAllOfTheModelWhereNoLengthIsAsked) {
  GenerationConfig open = config();
  open.max_new_tokens.reset();
  EXPECT_EQ(sized(two_, open).value().capacity, 64);
}

TEST_F(SizingTest, CountsThePromptToTheGreatestLength) {
  EXPECT_EQ(sized(two_, config({{"max_length", "10"}})).value().capacity, 9);
}

TEST_F(SizingTest, HasAtMostEightSlotsOrAsManyAsOneRequestNeeds) {
  const std::vector<Prompt> ten(10, Prompt{.ids = {1}});
  EXPECT_EQ(sized(ten, config()).value().slots, 8);
  EXPECT_EQ(sized({{.ids = {1}}}, config({{"num_beams", "12"}})).value().slots, 12);
  EXPECT_EQ(sized({ten.begin(), ten.begin() + 4}, config({{"num_beams", "3"}})).value().slots, 8);
  EXPECT_EQ(sized(two_, config({{"do_sample", "true"}, {"num_return_sequences", "3"}})).value().slots, 6);
  EXPECT_EQ(sized(two_, config({{"num_beams", "4"}, {"num_return_sequences", "3"}})).value().slots, 8);
}

TEST_F(SizingTest, RefusesTooFewSlotsForTheRowsOfOneRequest) {
  expect_refused(sized(two_, config({{"num_beams", "4"}}), {.slots = 3}), "--batch-size: found 3, expected at least 4");
  EXPECT_EQ(sized(two_, config({{"num_beams", "4"}}), {.slots = 4}).value().slots, 4);
}

TEST_F(SizingTest, RunsANegativePromptBesideEachPrompt) {
  const std::vector<Prompt> prompts = {{.ids = {1, 3}, .negative = {4, 5, 6, 7, 8}}, {.ids = {9}}};
  const EngineOptions options = sized(prompts, config({{"guidance_scale", "2"}})).value();
  EXPECT_EQ(options.capacity, 5 + 5 - 1);
  EXPECT_EQ(options.slots, 4);
}

TEST_F(SizingTest, CountsNoPromptThatNoSlotCanHold) {
  const std::vector<Prompt> prompts = {{.ids = std::vector<int32_t>(65, 1)}, {.ids = {5, 6}}};
  EXPECT_EQ(sized(prompts, config()).value().capacity, 2 + 5 - 1);
}

TEST_F(SizingTest, DraftsByLookupOrByAModel) {
  const Drafting lookup =
      sized(two_, config({{"prompt_lookup_num_tokens", "3"}, {"max_matching_ngram_size", "4"}})).value().drafting;
  EXPECT_EQ(lookup, (Drafting{.tokens = 3, .model = {}, .lookup_ngram = 4}));
  const EngineOptions with_model{.drafting = {.model = "small"}};
  EXPECT_EQ(sized(two_, config({{"num_assistant_tokens", "6"}}), with_model).value().drafting,
            (Drafting{.tokens = 6, .model = "small"}));
  EXPECT_EQ(sized(two_, config()).value().drafting, Drafting{});
}

TEST_F(SizingTest, RefusesDraftsBesideWhatTheyCannotServe) {
  const EngineOptions drafted{.drafting = {.model = "small"}};
  expect_refused(sized(two_, config({{"prompt_lookup_num_tokens", "3"}}), drafted),
                 "found --draft-model and prompt_lookup_num_tokens");
  expect_refused(sized(two_, config({{"num_beams", "4"}}), drafted), "found drafts and num_beams");
  expect_refused(sized(two_, config({{"bad_words_ids", "[[5]]"}, {"top_logprobs", "1"}}), drafted),
                 "found drafts and bad_words_ids, top_logprobs");
  GenerationConfig logits = config();
  logits.output_logits = true;
  expect_refused(sized(two_, logits, drafted), "found drafts and --output-logits");
}

TEST_F(SizingTest, LetsTheHostChooseWhatTheGraphsCannot) {
  const std::vector<std::map<std::string, std::string>> by_host = {
      {{"bad_words_ids", "[[5]]"}}, {{"no_repeat_ngram_size", "2"}}, {{"suppress_tokens", "[4]"}},
      {{"guidance_scale", "1.5"}},  {{"top_logprobs", "2"}},         {{"renormalize_logits", "true"}}};
  for (const auto& options : by_host) EXPECT_TRUE(needs_choosers(config(options))) << options.begin()->first;
  GenerationConfig asked = config();
  asked.output_scores = true;
  EXPECT_TRUE(needs_choosers(asked));
  asked = config();
  asked.output_logits = true;
  EXPECT_TRUE(needs_choosers(asked));
}

TEST_F(SizingTest, LetsTheGraphsChooseWhatTheyCan) {
  EXPECT_FALSE(needs_choosers(config({{"do_sample", "true"},
                                      {"temperature", "0.7"},
                                      {"top_k", "5"},
                                      {"top_p", "0.9"},
                                      {"min_p", "0.1"},
                                      {"typical_p", "0.9"},
                                      {"repetition_penalty", "1.1"},
                                      {"min_new_tokens", "2"}})));
}

}  // namespace
}  // namespace lockstep::requests
