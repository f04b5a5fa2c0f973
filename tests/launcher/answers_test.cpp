#include "launcher/generate/answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "launcher/commands/generate_report.h"
#include "tests/runtime/generation/tiny_tokenizer.h"

namespace lockstep::launcher {
namespace {

using generation::FinishReason;
using generation::kA, generation::kAb, generation::kB, generation::kBc, generation::kC, generation::kEuro1;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Json = nlohmann::json;

constexpr RequestId kFirst(0), kSecond(1);

class AnswersTest : public ::testing::Test {
 protected:
  actors::Verdict put(Answers& answers, RequestId request, int32_t token, std::vector<float> logits = {}) {
    clock_.advance(milliseconds(10));
    return answers.on_token(request, {.id = token, .made = clock_.now(), .logits = logits});
  }

  ManualClock clock_;
  std::unique_ptr<text::Tokenizer> tokenizer_ = generation::tiny_tokenizer();
  std::string shown_;
};

/// `logits` and `scores` of a vocabulary of 2.
std::shared_ptr<const generation::TokenRecord> record(float logprob, float logit) {
  return std::make_shared<const generation::TokenRecord>(
      generation::TokenRecord{.logprob = logprob,
                              .top = {{.id = 4, .logprob = logprob}, {.id = 5, .logprob = -INFINITY}},
                              .scores = {},
                              .logits = {logit, logit + 0.5f}});
}

TEST_F(AnswersTest, KeepTokensTextAndLogitsOfEveryRow) {
  Answers answers(clock_, {.rows = 2, .tokenizer = tokenizer_.get()});
  put(answers, kFirst, kAb, {1, 2});
  put(answers, kSecond, kC);
  put(answers, kFirst, kC, {3, 4});
  answers.on_finish(kFirst, FinishReason::kLength, std::nullopt);
  answers.on_finish(kSecond, FinishReason::kEos, std::nullopt);
  EXPECT_THAT(answers.rows()[0].tokens, ElementsAre(kAb, kC));
  EXPECT_THAT(answers.rows()[0].logits, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(answers.rows()[0].text, "abc");
  EXPECT_EQ(answers.rows()[0].reason, FinishReason::kLength);
  EXPECT_EQ(answers.rows()[1].text, "c");
  EXPECT_EQ(answers.tokens(), 3);
}

TEST_F(AnswersTest, StopARowBeforeAStopStringAndShowNothingOfIt) {
  Answers answers(clock_, {.rows = 1, .tokenizer = tokenizer_.get(), .stop_strings = {"bcb"}, .show = [&](auto text) {
                             shown_ += text;
                           }});
  EXPECT_EQ(put(answers, kFirst, kA), actors::Verdict::kContinue);
  EXPECT_EQ(put(answers, kFirst, kBc), actors::Verdict::kContinue);
  EXPECT_EQ(shown_, "a");
  EXPECT_EQ(put(answers, kFirst, kB), actors::Verdict::kStop);
  answers.on_finish(kFirst, FinishReason::kStop, std::nullopt);
  EXPECT_EQ(shown_, "a");
  EXPECT_EQ(answers.rows()[0].text, "a");
  EXPECT_THAT(answers.rows()[0].tokens, ElementsAre(kA, kBc, kB));
}

TEST_F(AnswersTest, ShowAtTheEndWhatWasHeldBack) {
  Answers answers(clock_, {.rows = 1, .tokenizer = tokenizer_.get(), .stop_strings = {"bcb"}, .show = [&](auto text) {
                             shown_ += text;
                           }});
  put(answers, kFirst, kBc);
  put(answers, kFirst, kEuro1);
  EXPECT_EQ(shown_, "");
  answers.on_finish(kFirst, FinishReason::kLength, std::nullopt);
  EXPECT_EQ(shown_, "bc\xEF\xBF\xBD");
}

TEST_F(AnswersTest, StopARowThatIsLate) {
  Answers answers(clock_, {.rows = 1, .tokenizer = nullptr, .stop_strings = {}, .max_time = milliseconds(15)});
  clock_.advance(milliseconds(100));  // before the submission: does not count
  answers.mark_start();
  EXPECT_EQ(put(answers, kFirst, 7), actors::Verdict::kContinue);
  EXPECT_EQ(put(answers, kFirst, 7), actors::Verdict::kStop);
}

TEST_F(AnswersTest, EndARowWithATokenThatIsUnknown) {
  Answers answers(clock_, {.rows = 1, .tokenizer = tokenizer_.get()});
  EXPECT_EQ(put(answers, kFirst, 99), actors::Verdict::kStop);
  answers.on_finish(kFirst, FinishReason::kStop, std::nullopt);
  ASSERT_TRUE(answers.rows()[0].error.has_value());
  EXPECT_EQ(answers.rows()[0].error->kind, ErrorKind::kInvalidArgument);
}

TEST_F(AnswersTest, MeasureFromTheSubmissionAndFromTokenToToken) {
  Answers answers(clock_, {.rows = 2});
  clock_.advance(milliseconds(500));
  answers.mark_start();
  EXPECT_EQ(answers.ttft_s(), std::nullopt);
  EXPECT_EQ(answers.tpot_s(), std::nullopt);
  put(answers, kFirst, 1);
  put(answers, kSecond, 1);
  put(answers, kFirst, 1);
  put(answers, kFirst, 1);
  EXPECT_DOUBLE_EQ(answers.ttft_s().value(), 0.010);
  EXPECT_DOUBLE_EQ(answers.tpot_s().value(), 0.015);  // 20 ms and 10 ms
  EXPECT_THAT(answers.rows()[0].times.latencies(), ElementsAre(milliseconds(10), milliseconds(20), milliseconds(10)));
  EXPECT_THAT(answers.rows()[1].times.latencies(), ElementsAre(milliseconds(20)));
}

TEST_F(AnswersTest, TakeTheWholeAnswersOfBeams) {
  Answers answers(clock_, {.rows = 3,
                           .tokenizer = tokenizer_.get(),
                           .stop_strings = {"bc"},
                           .max_time = std::nullopt,
                           .show = {},
                           .as_made = false});
  answers.on_finish(kFirst, FinishReason::kLength, std::nullopt);
  answers.adopt(kSecond,
                {{.ids = {kAb, kC}, .score = -0.5, .reason = FinishReason::kStop, .records = {}},
                 {.ids = {kB, kA}, .score = -1.5, .reason = FinishReason::kLength, .records = {record(-1, 3)}}});
  EXPECT_THAT(answers.rows()[0].tokens, IsEmpty());
  const Answer& best = answers.rows()[1];
  EXPECT_THAT(best.tokens, ElementsAre(kAb, kC));
  EXPECT_EQ(best.text, "a");  // cut before the stop string
  EXPECT_EQ(best.score, -0.5);
  EXPECT_EQ(best.reason, FinishReason::kStop);
  EXPECT_EQ(answers.rows()[2].text, "ba");
  EXPECT_THAT(answers.rows()[2].logits, ElementsAre(3, 3.5));
  EXPECT_EQ(answers.ttft_s(), std::nullopt);
}

TEST_F(AnswersTest, KeepStreamedTokensAndTrimRecordsToThem) {
  Answers answers(clock_, {.rows = 1});
  put(answers, kFirst, 4);
  put(answers, kFirst, 5);
  answers.on_finish(kFirst, FinishReason::kStop, std::nullopt);
  answers.adopt(kFirst, {{.ids = {4, 5, 6}, .records = {record(-1, 1), record(-2, 2), record(-3, 3)}}});
  const Answer& answer = answers.rows()[0];
  EXPECT_THAT(answer.tokens, ElementsAre(4, 5));
  EXPECT_EQ(answer.records.size(), 2u);
  EXPECT_THAT(answer.logits, ElementsAre(1, 1.5, 2, 2.5));
  EXPECT_EQ(answer.reason, FinishReason::kStop);
  EXPECT_EQ(answer.score, std::nullopt);
}

TEST_F(AnswersTest, AdoptNothingOfARequestThatFailed) {
  Answers answers(clock_,
                  {.rows = 1, .tokenizer = nullptr, .stop_strings = {}, .max_time = {}, .show = {}, .as_made = false});
  answers.on_finish(kFirst, FinishReason::kError, Error{ErrorKind::kInvalidArgument, "no"});
  answers.adopt(kFirst, {{.ids = {4, 5}, .records = {}}});
  EXPECT_THAT(answers.rows()[0].tokens, IsEmpty());
}

using ReportTest = AnswersTest;

TEST_F(ReportTest, TellsTokensTextsReasonsAndTimes) {
  Answers answers(clock_, {.rows = 2, .tokenizer = tokenizer_.get()});
  answers.mark_start();
  put(answers, kFirst, kAb);
  put(answers, kFirst, kC);
  put(answers, kSecond, kB);
  answers.on_finish(kFirst, FinishReason::kLength, std::nullopt);
  answers.on_finish(kSecond, FinishReason::kEos, std::nullopt);
  RunFacts facts;
  facts.startup = {{"load", 0.5}};
  facts.graphs_expected = 2;
  facts.graphs = {"prefill", "decode"};
  const Json json = Json::parse(to_json(answers, facts));
  EXPECT_EQ(json["sequences"], Json({{kAb, kC}, {kB}}));
  EXPECT_EQ(json["texts"], Json({"abc", "b"}));
  EXPECT_EQ(json["finish_reasons"], Json({"length", "eos"}));
  EXPECT_EQ(json["graphs"]["compiled"], 2);
  EXPECT_EQ(json["graphs"]["after_warmup"], 0);
  EXPECT_EQ(json["timings"]["load"], 0.5);
  EXPECT_EQ(json["timings"]["ttft_s"], 0.01);
  EXPECT_EQ(json["timings"]["token_latencies_s"], Json({{0.01, 0.01}, {0.03}}));
  for (const char* extra : {"sequences_scores", "logprobs", "top_logprobs", "speculation"}) {
    EXPECT_FALSE(json.contains(extra)) << extra;
  }
}

TEST_F(ReportTest, TellsScoresOfBeamsAndLogProbabilities) {
  Answers answers(clock_,
                  {.rows = 1, .tokenizer = nullptr, .stop_strings = {}, .max_time = {}, .show = {}, .as_made = false});
  answers.on_finish(kFirst, FinishReason::kLength, std::nullopt);
  answers.adopt(kFirst, {{.ids = {4, 3}, .score = -0.75, .records = {record(-0.5f, 1), record(-1.0f, 1)}}});
  const Json json = Json::parse(to_json(answers, {}));
  EXPECT_EQ(json["sequences_scores"], Json({-0.75}));
  EXPECT_EQ(json["logprobs"], Json::parse("[[-0.5, -1.0]]"));
  EXPECT_EQ(json["top_logprobs"][0][1], Json::parse(R"([{"id": 4, "logprob": -1.0}, {"id": 5, "logprob": null}])"));
  EXPECT_EQ(json["timings"]["token_latencies_s"], Json::parse("[[]]"));
  EXPECT_TRUE(json["timings"]["ttft_s"].is_null());
}

TEST_F(ReportTest, TellsHowWellDraftsCameTrue) {
  const Answers answers(clock_, {.rows = 1});
  RunFacts facts;
  facts.drafts = shards::DraftStatistics{.steps = 4, .drafted = 12, .accepted = 7};
  EXPECT_EQ(Json::parse(to_json(answers, facts))["speculation"],
            Json::parse(R"({"steps": 4, "drafted": 12, "accepted": 7})"));
  EXPECT_THAT(summary(answers, facts), ::testing::HasSubstr("7 of 12 drafts came true"));
}

}  // namespace
}  // namespace lockstep::launcher
