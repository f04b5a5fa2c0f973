// The parts of the load client: its plan, its reader of events, its statistics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/serve/load/event_reader.h"
#include "tests/serve/load/load_plan.h"
#include "tests/serve/load/load_report.h"

namespace lockstep::load {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(EventReader, GivesTheSameEventsHoweverTheStreamIsCut) {
  const std::string stream =
      ": waiting\n\nevent: x\ndata: one\n\ndata:two\r\ndata: lines\r\n\r\nid: 7\n\ndata: [DONE]\n\n";
  for (size_t piece = 1; piece <= stream.size(); ++piece) {
    EventReader reader;
    std::vector<std::string> events;
    for (size_t at = 0; at < stream.size(); at += piece) {
      for (std::string& data : reader.put(std::string_view(stream).substr(at, piece))) events.push_back(data);
    }
    EXPECT_THAT(events, ElementsAre("one", "two\nlines", "[DONE]")) << piece;
  }
}

TEST(StreamEvents, HaveTheTextOfBothProtocols) {
  EXPECT_EQ(read_event(R"({"choices": [{"index": 0, "text": "ab", "finish_reason": null}]})").text, "ab");
  EXPECT_EQ(read_event(R"({"choices": [{"delta": {"role": "assistant", "content": "c"}}], "usage": null})").text, "c");
  EXPECT_EQ(read_event(R"({"choices": [{"delta": {"content": null, "reasoning_content": "why"}}]})").text, "why");
  EXPECT_TRUE(read_event("[DONE]").is_end);
}

TEST(StreamEvents, HaveTheCountsAndTheErrorsOfTheServer) {
  const StreamEvent usage = read_event(
      R"({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7,
                                   "prompt_tokens_details": {"cached_tokens": 3}}})");
  EXPECT_EQ(usage.prompt_tokens, 5);
  EXPECT_EQ(usage.completion_tokens, 7);
  EXPECT_EQ(usage.cached_tokens, 3);
  EXPECT_EQ(read_event(R"({"error": {"message": "gone"}})").error, "gone");
  EXPECT_THAT(read_event("<html>").error, HasSubstr("expected an object"));
}

TEST(Spread, IsOfNearestRanks) {
  std::vector<double> values;
  for (int i = 200; i >= 1; --i) values.push_back(i);
  const Spread spread = spread_of(values);
  EXPECT_EQ(spread.p50, 100);
  EXPECT_EQ(spread.p99, 198);
  EXPECT_EQ(spread.max, 200);
  EXPECT_DOUBLE_EQ(spread.mean, 100.5);
  EXPECT_EQ(spread_of({3.0}).p99, 3.0);
  EXPECT_EQ(spread_of({}).count, 0u);
}

TEST(LoadPlan, ListsTheBeginsOfAnOpenGroup) {
  const auto plan = LoadPlan::parse(R"({"port": 80, "groups": [
      {"name": "even", "requests": 3, "interval_s": 0.5, "start_s": 1, "prompts": ["a"]},
      {"name": "random", "requests": 2000, "poisson_s": 0.25, "prompts": ["a"]},
      {"name": "closed", "streams": 4, "prompts": ["a"]}]})");
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_THAT(plan.value().groups[0].starts_s, ElementsAre(1.0, 1.5, 2.0));
  const std::vector<double>& random = plan.value().groups[1].starts_s;
  ASSERT_EQ(random.size(), 2000u);
  EXPECT_NEAR(random.back() / 1999, 0.25, 0.02);  // a standard error of the mean is 0.0056
  EXPECT_EQ(random, poisson_starts(2000, 0.25, 0.0, 2));
  EXPECT_THAT(plan.value().groups[2].starts_s, IsEmpty());
}

TEST(LoadPlan, MakesBodiesThatStreamAndFieldsThatReplaceThem) {
  const auto plan = LoadPlan::parse(R"({"port": 80, "model": "m", "groups": [
      {"name": "a", "max_tokens": 3, "ignore_eos": true, "prompts": [[5, 6]], "fields": {"ignore_eos": null, "n": 2}},
      {"name": "b", "api": "chat", "prompts": ["Hello"]}]})");
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const auto body = nlohmann::json::parse(plan.value().groups[0].bodies.at(0));
  EXPECT_EQ(body.at("prompt"), nlohmann::json({5, 6}));
  EXPECT_EQ(body.at("max_tokens"), 3);
  EXPECT_EQ(body.at("n"), 2);
  EXPECT_EQ(body.at("stream"), true);
  EXPECT_FALSE(body.contains("ignore_eos"));
  const auto chat = nlohmann::json::parse(plan.value().groups[1].bodies.at(0));
  EXPECT_EQ(chat.at("messages").at(0).at("content"), "Hello");
}

TEST(LoadPlan, ANextTurnRepeatsTheConversation) {
  const auto chat =
      nlohmann::json::parse(next_body(LoadApi::kChat, R"({"messages": [{"role": "user", "content": "a"}]})", "b", "c"));
  EXPECT_EQ(chat.at("messages").size(), 3u);
  EXPECT_EQ(chat.at("messages").at(1).at("role"), "assistant");
  EXPECT_EQ(chat.at("messages").at(2).at("content"), "c");
  EXPECT_EQ(nlohmann::json::parse(next_body(LoadApi::kCompletions, R"({"prompt": "a"})", "b", "c")).at("prompt"),
            "abc");
}

TEST(LoadPlan, NamesWhatIsWrong) {
  EXPECT_THAT(LoadPlan::parse("{}").error().message, HasSubstr("port"));
  EXPECT_THAT(LoadPlan::parse(R"({"port": 1, "groups": [{"name": "a", "prompts": []}]})").error().message,
              HasSubstr("no prompts"));
}

TEST(LoadReport, CountsEachGroup) {
  TurnRecord good{.group = "a", .started_s = 1.0, .ttft_s = 0.1, .wall_s = 2.0, .status = 200, .tokens = 10};
  good.gaps_s = {0.1, 0.3};
  TurnRecord bad{.group = "b", .started_s = 1.5, .wall_s = 0.5, .status = 500, .error = "broken"};
  const auto report = nlohmann::json::parse(report_json({good, bad}, 3.0, 0.01));
  EXPECT_EQ(report.at("groups").at("a").at("tokens_per_s"), 5.0);
  EXPECT_EQ(report.at("groups").at("a").at("gap_s").at("max"), 0.3);
  EXPECT_EQ(report.at("groups").at("b").at("errors"), 1);
  EXPECT_EQ(report.at("all").at("turns"), 2);
  EXPECT_EQ(report.at("turns").at(1).at("error"), "broken");
}

}  // namespace
}  // namespace lockstep::load
