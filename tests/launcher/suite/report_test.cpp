#include "launcher/measure/bench/suite/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep::launcher::suite {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

Row measured(const std::string& id, Verdict verdict, std::vector<double> pairs) {
  Row row{.goal = {.id = id, .name = "what <" + id + "> is", .floor = 0.9, .aim = 1.0}, .verdict = verdict};
  row.pairs = pairs;
  row.spread = pair_spread(std::move(pairs));
  row.beside = {{"ours", "17.5 tokens/s"}};
  return row;
}

Report report() {
  Report report{.suite = "cpu",
                .version = "1.2",
                .machine = {.host = "vm", .cpu = "a processor", .cores = 2},
                .ranks = 2,
                .pairs = 3};
  report.rows.push_back(measured("fast", Verdict::kAim, {1.0, 1.1, 1.05}));
  report.rows.push_back(measured("slow", Verdict::kBelow, {0.5}));
  Row refused{.goal = {.id = "later", .name = "later", .better = Better::kLower, .floor = 0.5, .aim = 0.3}};
  refused.verdict = Verdict::kNotAvailable;
  refused.reason = "\"whole\": exit code 2: --weights: unknown & <new>";
  report.rows.push_back(refused);
  report.rivals = {{.name = "ik", .state = "missing", .reason = "build it"}};
  report.children = {{"m", {{.side = "a", .command = "lockstep bench", .document = R"({"x": 1})"}}}};
  return report;
}

TEST(SuiteReport, CountsWhatBecameOfTheRows) {
  EXPECT_EQ(summary(report()),
            "2 of 3 rows measured: 1 reach the aim, 0 more the floor, 1 lie below it; 1 not available");
}

TEST(SuiteReport, TheTableShowsEveryFigureBesideItsLimits) {
  const std::string table = to_table(report());
  EXPECT_THAT(table,
              HasSubstr("fast                          1.05    ≥ 0.9      ≥ 1  aim           1 … 1.1, 3 pair(s)\n"));
  EXPECT_THAT(table, HasSubstr("later                            –    ≤ 0.5    ≤ 0.3  not available "));
  EXPECT_THAT(table, HasSubstr("      ours 17.5 tokens/s\n"));
  EXPECT_THAT(table, HasSubstr("unknown & <new>"));
  EXPECT_THAT(table, HasSubstr("  ik                  missing  build it\n"));
}

TEST(SuiteReport, TheJsonHoldsPairsAndWhatProgramsReported) {
  const Json json = Json::parse(to_json(report()));
  EXPECT_EQ(json["rows"][0]["pairs"], (std::vector{1.0, 1.1, 1.05}));
  EXPECT_EQ(json["rows"][0]["median"], 1.05);
  EXPECT_EQ(json["rows"][2]["verdict"], "not available");
  EXPECT_EQ(json["rows"][2]["better"], "lower");
  EXPECT_FALSE(json["rows"][2].contains("median"));
  EXPECT_EQ(json["children"][0]["result"]["x"], 1);
  EXPECT_EQ(json["rivals"][0]["state"], "missing");
  EXPECT_EQ(json["machine"]["cores"], 2);
}

TEST(SuiteReport, TheBarOfARowReachesToItsShareOfTheAim) {
  // The aim of every row lies at 190 + 450 / 1.25 = 550; half of it is 180 wide.
  const std::string svg = to_svg(report());
  EXPECT_THAT(svg, HasSubstr("<rect x=\"190.0\" y=\"94.0\" width=\"180.0\" height=\"14\" class=\"below\"/>"
                             "<path class=\"mark\" d=\"M370.0 98.0v6m0 -3H370.0m0 -3v6\"/>"
                             "<path class=\"mark\" d=\"M514.0 91.0v20\"/>"
                             "<text x=\"654\" y=\"105.5\">0.5 (0.5 … 0.5)  below</text></g>\n"));
  EXPECT_THAT(svg, HasSubstr("width=\"378.0\" height=\"14\" class=\"aim\"/>"
                             "<path class=\"mark\" d=\"M550.0 72.0v6m0 -3H586.0m0 -3v6\"/>"));
  EXPECT_THAT(svg, HasSubstr("<path class=\"shared\" d=\"M550.0 62V150\"/>"));
}

TEST(SuiteReport, PicturesHaveDarkColoursAndReferToNothing) {
  for (const std::string& text : {to_svg(report()), to_page(report())}) {
    EXPECT_THAT(text, HasSubstr("prefers-color-scheme: dark"));
    for (const char* word : {"<script", "href=", "src=", "url(", "@import", "<link"}) {
      EXPECT_THAT(text, Not(HasSubstr(word)));
    }
    EXPECT_THAT(text, HasSubstr("unknown &amp; &lt;new&gt;"));
    EXPECT_THAT(text, HasSubstr("what &lt;fast&gt; is"));
  }
}

TEST(SuiteReport, NamesARivalOnceAndBelievesTheRunInWhichItRan) {
  const auto run = [](const char* document) { return ChildRecord{.side = "compare", .document = document}; };
  const auto rivals =
      rivals_of({{"m", {run(R"({"rivals": [{"name": "ik", "state": "failed", "reason": "x"}]})")}},
                 {"n", {run(R"({"rivals": [{"name": "ik", "state": "ran", "version": "1"}]})"), run("")}}});
  ASSERT_EQ(rivals.size(), 1u);
  EXPECT_EQ(rivals[0].state, "ran");
  EXPECT_EQ(rivals[0].version, "1");
}

}  // namespace
}  // namespace lockstep::launcher::suite
