#include "launcher/measure/sweep/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/measure/sweep/page.h"
#include "launcher/measure/sweep/results_files.h"
#include "launcher/measure/sweep/verdicts.h"
#include "tests/launcher/sweep/sweep_values.h"

namespace lockstep::launcher {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr const char* kPrediction =
    R"({"decode_tokens_per_s":90.0,"prefill_tokens_per_s":800.0,"tpot_s":0.0111,"ttft_s":0.1,)"
    R"("communication_share":{"decode":0.2,"prefill":0.1}})";

/// TP 2 is the fastest; TP 4 waits; 9 is impossible.
Study usual_study() {
  return study_of(
      {record_of_bench({.tp = 4, .decode = 50, .ttft = 0.1, .compute = 0.38, .communication = 0.12, .waiting = 0.5}),
       record_of_bench({.tp = 1, .decode = 40}),
       record_of_bench({.tp = 2, .decode = 64, .ttft = 0.15, .communication = 0.25, .predicted = kPrediction}),
       failed_record(9, PointStatus::kImpossible, "[shards/partition] found 9 ranks, expected 1 to 4")});
}

TEST(SweepResults, PutDegreesInOrderAndCompareThemWithTheSmallest) {
  const Study study = usual_study();
  ASSERT_THAT(study.series, SizeIs(1));
  const std::vector<ResultRow>& rows = study.series[0].rows;
  ASSERT_THAT(rows, SizeIs(4));
  EXPECT_DOUBLE_EQ(*rows[0].speed_up, 1.0);
  EXPECT_DOUBLE_EQ(*rows[1].speed_up, 1.6);
  EXPECT_DOUBLE_EQ(*rows[1].efficiency, 0.8);
  EXPECT_DOUBLE_EQ(*rows[2].efficiency, 50.0 / 40 / 4);
  EXPECT_EQ(rows[3].speed_up, std::nullopt);
  EXPECT_EQ(rows[3].result, std::nullopt);
}

TEST(SweepResults, CompareWithTheSmallestDegreeThatWorked) {
  const Study study = study_of({failed_record(1, PointStatus::kFailed, "out of memory"),
                                record_of_bench({.tp = 2, .decode = 10}), record_of_bench({.tp = 4, .decode = 15})});
  EXPECT_DOUBLE_EQ(*study.series[0].rows[2].speed_up, 1.5);
  EXPECT_DOUBLE_EQ(*study.series[0].rows[2].efficiency, 0.75);
}

TEST(SweepResults, TakeSpreadAndSharesFromTheDocument) {
  const PointResult result =
      parse_result(FakeBench{.tp = 2, .decode = 50, .compute = 0.6, .communication = 0.1, .waiting = 0.3, .spread = 0.5}
                       .document())
          .value();
  EXPECT_EQ(result.decode, (Measured{50, 25, 75}));
  EXPECT_DOUBLE_EQ(result.decode_shares.communication, 0.4);
  EXPECT_DOUBLE_EQ(result.decode_shares.waiting, 0.3);
  EXPECT_FALSE(result.predicted.has_value());
  EXPECT_FALSE(parse_result("{}").has_value());
  EXPECT_FALSE(parse_result("[]").has_value());
}

TEST(SweepResults, ShowAPredictionWhereThereIsOne) {
  const auto predicted = parse_result(FakeBench{.predicted = kPrediction}.document()).value().predicted;
  ASSERT_TRUE(predicted.has_value());
  EXPECT_EQ(predicted->decode_tokens_per_s, 90.0);
  EXPECT_EQ(predicted->prefill_communication, 0.1);
  EXPECT_FALSE(parse_result(FakeBench{.predicted = R"({"other":1})"}.document()).value().predicted.has_value());
}

TEST(SweepResults, KeepVariantsApart) {
  PointRecord other = record_of_bench({.tp = 2});
  other.variant.options = {"--repeats", "9"};
  const Study study = study_of({record_of_bench({.tp = 1}), other});
  ASSERT_THAT(study.series, SizeIs(2));
  EXPECT_THAT(name_of(study.series[1], study), HasSubstr("--repeats 9"));
  EXPECT_EQ(name_of(usual_study().series[0], usual_study()), "batch 1, 128 prompt tokens");
}

TEST(SweepResults, AreReadBackFromJson) {
  const auto json = nlohmann::json::parse(to_json(usual_study(), {"a verdict"}));
  EXPECT_EQ(json.at("format"), 1);
  EXPECT_EQ(json.at("verdicts").at(0), "a verdict");
  ASSERT_EQ(json.at("points").size(), 4);
  EXPECT_EQ(json.at("points").at(1).at("decode_tokens_per_s"), 64.0);
  EXPECT_EQ(json.at("points").at(1).at("predicted_ttft_s"), 0.1);
  EXPECT_EQ(json.at("points").at(3).at("status"), "impossible");
  EXPECT_TRUE(json.at("points").at(3).at("decode_tokens_per_s").is_null());
  EXPECT_EQ(json.at("series"),
            nlohmann::json::parse(R"([{"name": "batch 1, 128 prompt tokens", "points": [0, 1, 2, 3]}])"));
}

TEST(SweepResults, QuoteTheFieldsOfCsv) {
  const std::string csv = to_csv(
      study_of({failed_record(2, PointStatus::kFailed, "a \"word\", and\nanother"), record_of_bench({.tp = 1})}));
  EXPECT_THAT(csv, ::testing::StartsWith(
                       "tp,replicas,ranks,batch_size,prompt_tokens,new_tokens,status,exit_code,decode_tokens_per_s,"));
  EXPECT_THAT(csv, HasSubstr("\"a \"\"word\"\", and\nanother\"\r\n"));
  EXPECT_THAT(csv, HasSubstr("\r\n1,1,1,1,128,16,ok,0,40.0,36.0,44.0,"));
}

TEST(SweepTable, HasARowForEachPointAndTheVerdictsBelow) {
  const std::string table = to_table(usual_study(), {"A verdict."});
  EXPECT_THAT(table, HasSubstr("batch 1, 128 prompt tokens\n"));
  EXPECT_THAT(table, HasSubstr("64 (57.6–70.4)"));
  EXPECT_THAT(table, HasSubstr("impossible\n"));
  EXPECT_THAT(table, ::testing::EndsWith("\nA verdict.\n"));
  EXPECT_THAT(short_number(0.01234), "0.0123");
  EXPECT_THAT(short_number(41.26), "41.3");
  EXPECT_THAT(short_number(156400), "156400");
}

TEST(Verdicts, NameTheFastestDegreeAndWhereTheTimeOfOthersGoes) {
  const auto verdicts = verdicts_of(usual_study());
  EXPECT_EQ(verdicts.front(),
            "batch 1, 128 prompt tokens: TP 2 is the fastest: 64 tokens/s, 1.60 times TP 1 (efficiency 80 %). TP 4 (50 "
            "tokens/s) spends 62 % of a decode step in collectives, 50 % waiting for other ranks.");
  EXPECT_THAT(verdicts, Contains(HasSubstr("the first token comes soonest with TP 4: after 100 ms, 150 ms with TP 2")));
  EXPECT_THAT(verdicts, Contains("Decoding reaches 71 % to 71 % of the predicted speed (furthest from it: TP 2 at "
                                 "batch 1, 128 prompt tokens: 64 tokens/s of 90 tokens/s)."));
  EXPECT_THAT(verdicts, Contains(HasSubstr("TP 9 is impossible: [shards/partition] found 9 ranks")));
}

TEST(Verdicts, SayWhenRepetitionsOverlap) {
  const Study study = study_of({record_of_bench({.tp = 1, .decode = 40}), record_of_bench({.tp = 2, .decode = 44})});
  EXPECT_THAT(verdicts_of(study), Contains(HasSubstr("the repetitions of TP 1 reach as far, so it may be as fast.")));
}

/// Two replicas of TP 1 against TP 2, with 8 sequences.
Study split_study() {
  return study_of({record_of_bench({.tp = 1, .decode = 100}, 8), record_of_bench({.tp = 2, .decode = 150}, 8),
                   record_of_groups({{.tp = 1, .decode = 90, .ttft = 0.2}, {.tp = 1, .decode = 110, .ttft = 0.4}}, 8)});
}

TEST(SweepResults, AddWhatGroupsDidAtTheSameTimeAndTakeTheLongestLatency) {
  const PointResult result = *split_study().series[0].rows[1].result;
  EXPECT_DOUBLE_EQ(result.decode.median, 200);
  EXPECT_DOUBLE_EQ(result.decode.min, 180);
  EXPECT_DOUBLE_EQ(result.decode.max, 220);
  EXPECT_DOUBLE_EQ(result.ttft.median, 0.4);
  EXPECT_DOUBLE_EQ(result.tpot.median, 1.0 / 90);
  EXPECT_DOUBLE_EQ(result.read_bytes_per_s, 4e10);
  EXPECT_DOUBLE_EQ(result.of_bandwidth, 0.5);
  EXPECT_EQ(result.together, std::nullopt);  // these documents lack the times
}

TEST(SweepResults, MeasureHowLongGroupsComputedTogether) {
  const auto repetition = [](double begin, double end) { return FakeBench{.begin_s = begin, .end_s = end}.document(); };
  const std::string groups = "[" + repetition(10, 19) + "," + repetition(11, 20) + "]";
  EXPECT_DOUBLE_EQ(parse_result(groups).value().together.value(), 0.8);
  EXPECT_EQ(parse_result(repetition(10, 19)).value().together, std::nullopt);
}

TEST(SweepResults, CompareSplitsByTheirRanks) {
  const std::vector<ResultRow> rows = split_study().series[0].rows;
  EXPECT_EQ(rows[1].record.shape.replicas, 2);  // before TP 2, with as many ranks
  EXPECT_DOUBLE_EQ(*rows[1].speed_up, 2.0);
  EXPECT_DOUBLE_EQ(*rows[1].efficiency, 1.0);
}

TEST(SweepTable, ShowsRanksReplicasAndDegreesWhereThereAreReplicas) {
  EXPECT_THAT(to_table(split_study(), {}), HasSubstr("  P  replicas  TP "));
  EXPECT_THAT(to_table(usual_study(), {}), Not(HasSubstr("replicas")));
  EXPECT_THAT(to_csv(split_study()), HasSubstr("\r\n1,2,2,8,128,16,ok,0,200.0,"));
  EXPECT_THAT(to_page(split_study(), {}), HasSubstr("<tr><td>2</td><td>2</td><td>1</td><td>200 (180–220)</td>"));
  const auto series = nlohmann::json::parse(to_json(split_study(), {})).at("series");
  EXPECT_EQ(series, nlohmann::json::parse(R"([{"name": "batch 8, 128 prompt tokens, replicas: 1", "points": [0, 2]},
                                              {"name": "batch 8, 128 prompt tokens, replicas: 2", "points": [1]}])"));
}

TEST(Verdicts, NameTheBestSplitForThroughputAndForLatency) {
  const auto verdicts = verdicts_of(split_study());
  EXPECT_EQ(verdicts.front(),
            "batch 8, 128 prompt tokens: 2 × TP 1 is the fastest: 200 tokens/s, 2.00 times TP 1 (efficiency 100 %).");
  EXPECT_THAT(verdicts,
              Contains("batch 8, 128 prompt tokens, P = 2 ranks (replicas × degree): best split for throughput: 2 × 1 "
                       "(200 tokens/s, 1.33 times 1 × 2); for latency: 1 × 2 (6.67 ms a token, 0.60 times 2 × 1; first "
                       "after 200 ms)."));
  for (const std::string& verdict : verdicts_of(usual_study())) EXPECT_THAT(verdict, Not(HasSubstr("best split")));
}

TEST(Verdicts, DoubtGroupsThatComputedOneAfterAnother) {
  PointRecord record = record_of_groups({{.begin_s = 10, .end_s = 20}, {.begin_s = 19, .end_s = 30}}, 8);
  EXPECT_THAT(verdicts_of(study_of({record})),
              Contains(HasSubstr("The groups of 2 × TP 1 computed together for less than 90 %")));
  record = record_of_groups({{.begin_s = 10, .end_s = 20}, {.begin_s = 10.1, .end_s = 20}}, 8);
  EXPECT_THAT(verdicts_of(study_of({record})), Not(Contains(HasSubstr("computed together"))));
}

TEST(Verdicts, DoNotCompareASingleDegree) {
  EXPECT_THAT(verdicts_of(study_of({record_of_bench({.tp = 2})})),
              ElementsAre("batch 1, 128 prompt tokens: TP 2 makes 40 tokens/s; no other degree was measured."));
}

TEST(Verdicts, WarnOfCrowdedCoresBadProbesAndSeveralMachines) {
  PointRecord elsewhere = record_of_bench({.tp = 1});
  elsewhere.machine.host = "node2";
  EXPECT_THAT(verdicts_of(study_of({record_of_bench({.tp = 4, .threads = 3, .bad_probe = true})})),
              Contains(HasSubstr("TP 4 had more compute threads than the machine's 8 cores")));
  EXPECT_THAT(verdicts_of(study_of({record_of_bench({.tp = 4, .bad_probe = true})})),
              Contains(HasSubstr("disturbed the probe")));
  EXPECT_THAT(verdicts_of(study_of({record_of_bench({.tp = 2}), elsewhere})),
              Contains(HasSubstr("started from 2 machines")));
}

TEST(Verdicts, SayWhichBatchMakesMostTokens) {
  EXPECT_THAT(verdicts_of(study_of({record_of_bench({.tp = 2}), record_of_bench({.tp = 2, .decode = 200}, 8)})),
              Contains("Most tokens in all come from 8 sequences at once with TP 2: 200 tokens/s."));
}

TEST(Verdicts, TellWhatFailedOnceForAllSeries) {
  PointRecord failed = failed_record(2, PointStatus::kFailed, "exit code 5: rank 1 was lost\nmore");
  const auto verdicts = verdicts_of(study_of({failed, failed_record(9, PointStatus::kImpossible, "no")}));
  EXPECT_THAT(verdicts,
              ElementsAre("batch 1, 128 prompt tokens: TP 2 has no result (failed): exit code 5: rank 1 was lost",
                          "TP 9 is impossible: no"));
}

/// The text between `open` and `close`, after the first `open`.
std::string between(const std::string& text, std::string_view open, std::string_view close) {
  const size_t begin = text.find(open) + open.size();
  return text.substr(begin, text.find(close, begin) - begin);
}

constexpr const char* kStudy = "<script type=\"application/json\" id=\"study\">";

TEST(ReportPage, HoldsTheJsonThatItsChartsAreDrawnFrom) {
  const std::vector<std::string> verdicts = verdicts_of(usual_study());
  const std::string page = to_page(usual_study(), verdicts);
  EXPECT_EQ(nlohmann::json::parse(between(page, kStudy, "</script>")),
            nlohmann::json::parse(to_json(usual_study(), verdicts)));
}

TEST(ReportPage, ShowsVerdictsAndTablesWithoutItsScript) {
  const std::string page = to_page(usual_study(), verdicts_of(usual_study()));
  const std::string before = page.substr(0, page.find("<script"));
  EXPECT_THAT(before, HasSubstr("<h1>Scaling of tiny</h1>"));
  EXPECT_THAT(before, HasSubstr("<li>batch 1, 128 prompt tokens: TP 2 is the fastest"));
  EXPECT_THAT(before, HasSubstr("<tr><td>2</td><td>64 (57.6–70.4)</td><td>90</td><td>1.60</td><td>80 %</td>"));
  EXPECT_THAT(before, HasSubstr("exit code 3: [shards/partition] found 9 ranks"));
  EXPECT_THAT(before, HasSubstr("<th>machine</th><td>node1: 8 cores, a processor</td>"));
  EXPECT_THAT(page, Not(HasSubstr("{{")));
}

TEST(ReportPage, EscapesWhatItShowsAndFillsInNothingTwice) {
  const std::string message = "</script><script>alert(1)</script> & \x01 {{title}} <!--";
  const Study study = study_of({failed_record(2, PointStatus::kFailed, message)});
  const std::string page = to_page(study, verdicts_of(study));
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, HasSubstr("&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt; &amp;  {{title}} &lt;!--"));
  const auto json = nlohmann::json::parse(between(page, kStudy, "</script>"));
  EXPECT_EQ(json.at("points").at(0).at("message"), message);
}

TEST(ReportPage, RefersToNothing) {
  const std::string page = to_page(usual_study(), verdicts_of(usual_study()));
  for (const char* outside : {"src=", "href=", "url(", "@import", "<link", "<iframe", "fetch(", "import("}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
}

}  // namespace
}  // namespace lockstep::launcher
