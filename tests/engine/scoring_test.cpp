// Engine::score: log-probabilities of given texts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/engine_fixture.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

using ScoringTest = EngineTest;

TEST_F(ScoringTest, ScoresTextsBesideWhatItAnswers) {
  EngineOptions options = small();
  options.scoring = Scoring::kOn;
  options.scored_top = 4;
  const auto group = Group::threads(2).value();
  const auto engine = open(*group, options);
  RequestHandle answer = engine->submit(request(prompt_, {{"max_new_tokens", "16"}})).value();
  const std::vector<std::vector<int32_t>> texts{prompt_, {7}, {7, 3, 7, 3, 7, 3, 7, 3}, prompt_};
  const auto scores = engine->score(texts, 2).value();
  EXPECT_EQ(answer.wait().value().at(0).ids, alone(request(prompt_, {{"max_new_tokens", "16"}})));
  ASSERT_THAT(scores, SizeIs(4));
  for (size_t text = 0; text < texts.size(); ++text) {
    ASSERT_THAT(scores[text], SizeIs(texts[text].size()));
    for (size_t i = 0; i < texts[text].size(); ++i) {
      EXPECT_EQ(scores[text][i].id, texts[text][i]);
      EXPECT_EQ(scores[text][i].logprob.has_value(), i > 0);
      EXPECT_THAT(scores[text][i].top, SizeIs(i > 0 ? 2 : 0));
    }
  }
  EXPECT_EQ(scores[0].back().logprob, scores[3].back().logprob);
  // The likeliest token after the prompt is the one that is made.
  std::vector<int32_t> longer = prompt_;
  longer.push_back(alone(request(prompt_)).front());
  const auto last = engine->score(longer, 1).value().back();
  EXPECT_EQ(last.top.at(0).id, longer.back());
  EXPECT_EQ(last.top.at(0).logprob, last.logprob);
  EXPECT_TRUE(engine->close().has_value());
  EXPECT_EQ(engine->counters().finished, 6);
  EXPECT_EQ(engine->counters().running + engine->counters().queued, 0);
}

TEST_F(ScoringTest, RefusesTextsThatItCannotScore) {
  const auto group = Group::alone().value();
  {
    const auto engine = open(*group);
    EXPECT_EQ(engine->score(prompt_).error().kind, ErrorKind::kUnsupported);
    EXPECT_THAT(engine->score(prompt_).error().message, HasSubstr("Scoring::kOn"));
    EXPECT_TRUE(engine->close().has_value());
    EXPECT_THAT(engine->facts().graphs, SizeIs(2));
  }
  EngineOptions options = small();
  options.scoring = Scoring::kOn;
  options.scored_top = 1;
  const auto engine = open(*group, options);
  EXPECT_THAT(engine->score(prompt_, 2).error().message, HasSubstr("found top 2, expected 0 to 1"));
  EXPECT_THAT(engine->score(std::vector<int32_t>{}).error().message, HasSubstr("an empty text"));
  EXPECT_THAT(engine->score(std::vector<int32_t>{1, 99}).error().message, HasSubstr("token id 99"));
  EXPECT_EQ(engine->score(std::vector<int32_t>(26, 3)).error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(engine->score(std::vector<int32_t>(25, 3)).value(), SizeIs(25));  // the last one needs no room
  EXPECT_TRUE(engine->close().has_value());
}

TEST_F(ScoringTest, ScoresWhereTokensAreDrafted) {
  const auto group = Group::threads(2).value();
  EngineOptions options = small();
  options.scoring = Scoring::kOn;
  const auto plain = open(*group, options);
  const auto expected = plain->score(prompt_, 1).value();
  EXPECT_TRUE(plain->close().has_value());
  options.drafting = {.tokens = 2, .model = std::nullopt, .lookup_ngram = 2};
  const auto drafting = open(*group, options);
  const auto scores = drafting->score(prompt_, 1).value();
  for (size_t i = 0; i < scores.size(); ++i) EXPECT_EQ(scores[i].logprob, expected[i].logprob);
  EXPECT_TRUE(drafting->close().has_value());
}

}  // namespace
}  // namespace lockstep
