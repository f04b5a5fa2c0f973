#include "runtime/trace/chrome_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/runtime/trace/timelines.h"

namespace lockstep::trace {
namespace {

using Json = nlohmann::json;

RunTrace small_run() {
  RunTrace run{.ranks = two_ranks(), .facts = {{"model", "a \"tiny\" one"}}};
  run.ranks[1].clock_error = std::chrono::microseconds(3);
  run.ranks[1].dropped_collectives = 4;
  run.requests = {{0, at(105), at(130), at(150), 3, "length"}, {1, at(105), std::nullopt, at(140), 0, "error"}};
  return run;
}

std::vector<Json> events_of(const Json& file, const std::string& kind) {
  std::vector<Json> events;
  for (const Json& event : file.at("traceEvents")) {
    if (event.at("ph") == kind) events.push_back(event);
  }
  return events;
}

/// Slices of one thread lie inside one another or apart.
void expect_nested(std::vector<Json> slices) {
  std::ranges::sort(slices, [](const Json& a, const Json& b) {
    return std::pair(a["ts"].get<double>(), -a["dur"].get<double>()) <
           std::pair(b["ts"].get<double>(), -b["dur"].get<double>());
  });
  constexpr double kRounding = 1e-6;
  std::vector<double> open;  // ends
  for (const Json& slice : slices) {
    const double begin = slice["ts"], end = begin + slice["dur"].get<double>();
    while (!open.empty() && open.back() <= begin + kRounding) open.pop_back();
    EXPECT_TRUE(open.empty() || end <= open.back() + kRounding) << slice;
    open.push_back(end);
  }
}

TEST(ChromeTrace, IsJsonWithAProcessForEveryRank) {
  const Json file = Json::parse(to_chrome_json(small_run()));
  std::map<int, std::string> processes;
  std::set<std::pair<int, std::string>> threads;
  for (const Json& event : events_of(file, "M")) {
    if (event["name"] == "process_name") processes[event["pid"].get<int>()] = event["args"]["name"].get<std::string>();
    if (event["name"] == "thread_name")
      threads.emplace(event["pid"].get<int>(), event["args"]["name"].get<std::string>());
  }
  EXPECT_EQ(processes, (std::map<int, std::string>{{0, "rank 0 (node1)"}, {1, "rank 1 (node1)"}}));
  EXPECT_EQ(threads, (std::set<std::pair<int, std::string>>{
                         {0, "executor"}, {0, "collectives"}, {0, "requests"}, {1, "executor"}, {1, "collectives"}}));
}

TEST(ChromeTrace, NestsSlicesAndHasNoNegativeTimes) {
  const Json file = Json::parse(to_chrome_json(small_run()));
  std::map<std::pair<int, int>, std::vector<Json>> threads;
  for (const Json& slice : events_of(file, "X")) {
    EXPECT_GE(slice["ts"].get<double>(), 0.0);
    EXPECT_GE(slice["dur"].get<double>(), 0.0);
    threads[{slice["pid"], slice["tid"]}].push_back(slice);
  }
  EXPECT_EQ(threads.size(), 4u);
  for (const auto& [thread, slices] : threads) expect_nested(slices);
}

TEST(ChromeTrace, TellsStepsCollectivesAndTokens) {
  const Json file = Json::parse(to_chrome_json(small_run()));
  std::map<std::string, int> count;
  for (const Json& slice : events_of(file, "X")) ++count[slice["cat"].get<std::string>()];
  EXPECT_EQ(count, (std::map<std::string, int>{
                       {"phase", 4}, {"schedule", 4}, {"step", 6}, {"communication", 8}, {"waiting", 4}}));
  for (const Json& slice : events_of(file, "X")) {
    if (slice["cat"] == "step" && slice["name"] == "prefill" && slice["pid"] == 0) {
      EXPECT_EQ(slice["args"], (Json{{"rows", 7}, {"slots", 2}, {"tokens", 1}, {"schedule", 0}, {"step", 0}}));
      EXPECT_EQ(slice["ts"], 110'000.0);
      EXPECT_EQ(slice["dur"], 20'000.0);
    }
    if (slice["cat"] == "waiting") {
      EXPECT_EQ(slice["pid"], 0);  // rank 1 is the late one
      EXPECT_EQ(slice["dur"], 4000.0);
      EXPECT_EQ(slice["args"]["for"], slice["ts"] < 100'000.0 ? "exchange" : "all_reduce");
      EXPECT_EQ(slice["args"]["phase"] == "outside", slice["ts"] < 100'000.0);
    }
    EXPECT_TRUE(slice["cat"] != "communication" || slice["dur"] == 2000.0) << slice;
  }
  std::vector<std::pair<double, int>> tokens;  // of rank 0's steps: from their begins to their ends
  for (const Json& counter : events_of(file, "C")) {
    EXPECT_EQ(counter["name"], "tokens");
    tokens.emplace_back(counter["ts"], counter["args"]["of a step"]);
  }
  EXPECT_THAT(tokens, ::testing::ElementsAre(std::pair(110'000.0, 1), std::pair(130'000.0, 0),  //
                                             std::pair(140'000.0, 2), std::pair(150'000.0, 0),  //
                                             std::pair(160'000.0, 2), std::pair(170'000.0, 0)));
}

TEST(ChromeTrace, GivesADeviceARowWhereItsTimeWasMeasured) {
  RunTrace run = small_run();
  // A decode step from 160 to 170 whose device took 6 ms; the host saw its end 1 ms before the step's.
  run.ranks[1].steps.back().on_device = {std::chrono::milliseconds(6), std::chrono::milliseconds(1)};
  const Json file = Json::parse(to_chrome_json(run));
  int found = 0;
  for (const Json& slice : events_of(file, "X")) {
    if (slice["cat"] != "device") continue;
    ++found;
    EXPECT_EQ(slice["pid"], 1);
    EXPECT_EQ(slice["name"], "decode");
    EXPECT_EQ(slice["ts"], 163'000.0);
    EXPECT_EQ(slice["dur"], 6'000.0);
    EXPECT_EQ(slice["args"], (Json{{"schedule", 1}, {"step", 1}}));
  }
  EXPECT_EQ(found, 1);
  for (const Json& event : events_of(file, "M")) {
    EXPECT_TRUE(event["args"].value("name", "") != "device" || event["pid"] == 1);
  }
}

// Perfetto does not read otherData, and shows events with a global id outside their process.
TEST(ChromeTrace, PutsTheRunsFactsOnItsSliceAndRequestsIntoRankZero) {
  const Json file = Json::parse(to_chrome_json(small_run()));
  std::vector<Json> runs;
  for (const Json& slice : events_of(file, "X")) {
    if (slice["name"] == "run") runs.push_back(slice["args"]);
    EXPECT_TRUE(slice["name"] != "load" || slice["args"].empty());
  }
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[1], (Json{{"model", "a \"tiny\" one"},
                           {"rank", 1},
                           {"host", "node1"},
                           {"cores", {1, 2}},
                           {"clock_error_us", 3.0},
                           {"dropped_steps", 0},
                           {"dropped_collectives", 4}}));
  for (const Json& begin : events_of(file, "b")) {
    EXPECT_FALSE(begin.contains("id"));
    EXPECT_EQ(begin["name"], "request");  // all on the tracks of this name
    EXPECT_EQ(std::to_string(begin["args"]["request"].get<int>()), begin["id2"]["local"]);
  }
}

TEST(ChromeTrace, TellsRequestsAndWhatIsKnownOfTheFile) {
  const Json file = Json::parse(to_chrome_json(small_run()));
  EXPECT_EQ(events_of(file, "b").size(), 2u);
  EXPECT_EQ(events_of(file, "n").size(), 1u);
  ASSERT_EQ(events_of(file, "e").size(), 2u);
  EXPECT_EQ(events_of(file, "e")[0]["args"], (Json{{"tokens", 3}, {"reason", "length"}}));
  EXPECT_EQ(file["otherData"]["model"], "a \"tiny\" one");
  const Json& rank = file["otherData"]["ranks"][1];
  EXPECT_DOUBLE_EQ(rank["clock_error_us"].get<double>(), 3.0);
  EXPECT_EQ(rank["dropped_collectives"], 4);
}

TEST(ChromeTrace, OfNothingIsStillAFile) {
  const Json file = Json::parse(to_chrome_json({.ranks = {RankTimeline{}}}));
  EXPECT_TRUE(events_of(file, "X").empty());
}

}  // namespace
}  // namespace lockstep::trace
