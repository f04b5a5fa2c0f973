#include "launcher/generate/generate_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/core/clock.h"

namespace lockstep::launcher {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

/// Tokens that were made so many milliseconds after the submission.
TokenTimes made_at(const std::vector<int>& times) {
  const TimePoint submitted = ManualClock().now();
  TokenTimes made{.submitted = submitted, .made = {}};
  for (const int time : times) made.made.push_back(submitted + milliseconds(time));
  return made;
}

std::shared_ptr<const TokenRecord> record(float logprob) {
  return std::make_shared<const TokenRecord>(
      TokenRecord{.logprob = logprob,
                  .top = {{.id = 4, .logprob = logprob}, {.id = 5, .logprob = -INFINITY}},
                  .scores = {},
                  .logits = {}});
}

Json json_of(const std::vector<Answer>& answers, const EngineFacts& facts = {}, const EngineCounters& counters = {}) {
  return Json::parse(to_json(answers, facts, counters));
}

TEST(GenerateReport, MeasuresFromTheSubmissionAndFromTokenToToken) {
  EXPECT_EQ(ttft_s({}), std::nullopt);
  EXPECT_EQ(tpot_s({}), std::nullopt);
  const std::vector<Answer> none = {{.times = made_at({})}, {.times = made_at({20})}};
  EXPECT_EQ(ttft_s(none), std::nullopt);
  EXPECT_EQ(tpot_s(none), std::nullopt);
  const std::vector<Answer> answers = {{.ids = {1, 1, 1}, .times = made_at({10, 30, 40})},
                                       {.ids = {1}, .times = made_at({20})}};
  EXPECT_EQ(tokens_of(answers), 4);
  EXPECT_DOUBLE_EQ(ttft_s(answers).value(), 0.010);
  EXPECT_DOUBLE_EQ(tpot_s(answers).value(), 0.015);  // 20 ms and 10 ms
  EXPECT_EQ(json_of(answers)["timings"]["token_latencies_s"], Json({{0.01, 0.02, 0.01}, {0.02}}));
}

TEST(GenerateReport, TellsTokensTextsReasonsAndTimes) {
  const std::vector<Answer> answers = {
      {.ids = {5, 2}, .text = "abc", .reason = FinishReason::kLength, .times = made_at({10, 20})},
      {.ids = {1}, .text = "b", .reason = FinishReason::kEos, .times = made_at({30})}};
  const EngineFacts facts{.startup = {{"load", 0.5}}, .graphs_expected = 2, .graphs = {"prefill", "decode"}};
  const Json json = json_of(answers, facts);
  EXPECT_EQ(json["sequences"], Json({{5, 2}, {1}}));
  EXPECT_EQ(json["texts"], Json({"abc", "b"}));
  EXPECT_EQ(json["finish_reasons"], Json({"length", "eos"}));
  EXPECT_EQ(json["graphs"]["expected"], 2);
  EXPECT_EQ(json["graphs"]["compiled"], 2);
  EXPECT_EQ(json["graphs"]["after_warmup"], 0);
  EXPECT_EQ(json["timings"]["load"], 0.5);
  EXPECT_EQ(json["timings"]["ttft_s"], 0.01);
  EXPECT_EQ(json["timings"]["token_latencies_s"], Json({{0.01, 0.01}, {0.03}}));
  for (const char* extra : {"sequences_scores", "logprobs", "top_logprobs", "speculation", "ranks", "stragglers"}) {
    EXPECT_FALSE(json.contains(extra)) << extra;
  }
}

TEST(GenerateReport, TellsScoresOfBeamsAndLogProbabilities) {
  const std::vector<Answer> answers = {
      {.ids = {4, 3}, .score = -0.75, .records = {record(-0.5f), record(-1.0f)}, .times = made_at({})}};
  const Json json = json_of(answers);
  EXPECT_EQ(json["sequences_scores"], Json({-0.75}));
  EXPECT_EQ(json["logprobs"], Json::parse("[[-0.5, -1.0]]"));
  EXPECT_EQ(json["top_logprobs"][0][1], Json::parse(R"([{"id": 4, "logprob": -1.0}, {"id": 5, "logprob": null}])"));
  EXPECT_EQ(json["timings"]["token_latencies_s"], Json::parse("[[]]"));
  EXPECT_TRUE(json["timings"]["ttft_s"].is_null());
  EXPECT_TRUE(json["timings"]["tpot_s"].is_null());
}

TEST(GenerateReport, TellsHowManyDraftsWereAccepted) {
  const std::vector<Answer> answers(1);
  EngineFacts facts;
  const EngineCounters counters{.draft_steps = 4, .drafted = 12, .accepted = 7};
  EXPECT_FALSE(json_of(answers, facts, counters).contains("speculation"));
  EXPECT_THAT(summary(answers, facts, counters), Not(HasSubstr("drafted")));
  facts.drafts = 3;
  EXPECT_EQ(json_of(answers, facts, counters)["speculation"],
            Json::parse(R"({"steps": 4, "drafted": 12, "accepted": 7})"));
  EXPECT_THAT(summary(answers, facts, counters), HasSubstr("7 of 12 drafted tokens accepted"));
}

TEST(GenerateReport, TellsSizesAsTheOptionsAreCalled) {
  const Json json = json_of({}, {.ranks = 3,
                                 .threads = 2,
                                 .backend = "cpu",
                                 .communicator = "shm",
                                 .dtype = "bf16",
                                 .weights = "int8:64",
                                 .slots = 4,
                                 .prefill_chunk = 16,
                                 .capacity = 99,
                                 .batch_sizes = {1, 4},
                                 .context_buckets = {16},
                                 .token_buckets = {99}});
  EXPECT_EQ(json["world_size"], 3);
  EXPECT_EQ(json["threads"], 2);
  EXPECT_EQ(json["backend"], "cpu");
  EXPECT_EQ(json["communicator"], "shm");
  EXPECT_EQ(json["dtype"], "bf16");
  EXPECT_EQ(json["weights"], "int8:64");
  EXPECT_EQ(json["batch_size"], 4);
  EXPECT_EQ(json["prefill_chunk"], 16);
  EXPECT_EQ(json["max_seq_len"], 99);
  EXPECT_EQ(json["batch_sizes"], Json({1, 4}));
  EXPECT_EQ(json["context_buckets"], Json::parse("[16]"));
  EXPECT_EQ(json["token_buckets"], Json::parse("[99]"));
}

TEST(GenerateReport, ListsGraphsThatWereCompiledAfterTheStartLast) {
  const Json graphs =
      json_of({}, {.graphs_expected = 1, .graphs = {"decode"}, .graphs_after_start = {"verify"}})["graphs"];
  EXPECT_EQ(graphs["compiled"], 1);
  EXPECT_EQ(graphs["after_warmup"], 1);
  EXPECT_EQ(graphs["list"], Json({"decode", "verify"}));
}

TEST(GenerateReport, TellsTheMemoryOfEachRankAndTheMostOfOne) {
  const RankMemory first{.weights = Bytes(1 << 20),
                         .states_reserved = Bytes(2),
                         .states_resident = Bytes(3 << 20),
                         .workspace = Bytes(4),
                         .peak_loading = Bytes(5 << 20),
                         .read_loading = Bytes(6),
                         .files = Bytes(7),
                         .read_ahead = Bytes(8),
                         .peak = Bytes(9 << 20)};
  RankMemory second = first;
  second.weights = Bytes(2 << 20);
  const EngineFacts facts{.memory = {first, second}};
  const Json memory = json_of({}, facts)["memory"]["ranks"];
  ASSERT_EQ(memory.size(), 2u);
  EXPECT_EQ(memory[0], (Json{{"weights", 1 << 20},
                             {"states_reserved", 2},
                             {"states_resident", 3 << 20},
                             {"workspace", 4},
                             {"peak_resident_loading", 5 << 20},
                             {"bytes_read_loading", 6},
                             {"bytes_of_files", 7},
                             {"bytes_read_ahead", 8},
                             {"peak_resident", 9 << 20}}));
  EXPECT_EQ(memory[1]["weights"], 2 << 20);
  EXPECT_THAT(summary({}, facts, {}), HasSubstr("at most 2.00 MiB of weights and 3.00 MiB of states on a rank, "
                                                "9.00 MiB in its process (5.00 MiB while loading)"));
}

TEST(GenerateReport, TellsWhereEveryRanksTimeWentWhereItWasObserved) {
  EngineFacts facts;
  facts.report.emplace();
  facts.report->ranks.resize(2);
  facts.report->ranks[1].rank = 1;
  facts.report->stragglers = {"rank 1 is late"};
  const Json json = json_of({}, facts);
  ASSERT_EQ(json["ranks"].size(), 2u);
  EXPECT_EQ(json["ranks"][1]["rank"], 1);
  EXPECT_EQ(json["stragglers"], Json({"rank 1 is late"}));
}

}  // namespace
}  // namespace lockstep::launcher
