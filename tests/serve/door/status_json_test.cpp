#include "launcher/serve/door/status_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep::serve {
namespace {

using Json = nlohmann::ordered_json;
using Slot = EngineActivity::Slot;

ApiRequest request(uint64_t number, std::string id) {
  return {.number = number,
          .id = std::move(id),
          .endpoint = "/v1/completions",
          .peer = "",
          .choices = 1,
          .prompt_tokens = 12,
          .most_tokens = 40};
}

Json status_of(const EngineActivity& activity, const Metrics& metrics) {
  return Json::parse(status_json({.state = "ready", .model = "m"}, EngineStatus{}, activity, metrics));
}

TEST(StatusJson, NamesTheRequestOfASlotByItsId) {
  Metrics metrics;
  metrics.on_started(request(7, "req_seven"));
  const Json status =
      status_of({.slots = {Slot{.state = "decode", .request = 31, .tokens = 15, .new_tokens = 3, .tag = 7}}}, metrics);
  EXPECT_EQ(status["slots"][0], Json::parse(R"({"slot": 0, "state": "decode", "request": "req_seven",
      "endpoint": "/v1/completions", "tokens": 15, "new_tokens": 3, "most_tokens": 40})"));
  EXPECT_EQ(status["requests"][0]["id"], "req_seven");
  EXPECT_EQ(status["requests"][0]["state"], "running");
  EXPECT_EQ(status["requests"][0]["slots"], Json::parse("[0]"));
}

TEST(StatusJson, SaysHowAChangeOfTheRanksGoes) {
  const auto status = [](const StatusFacts& facts) {
    return Json::parse(status_json(facts, EngineStatus{}, EngineActivity{}, Metrics()));
  };
  const Json changing = status({.engine = {.ranks = 2}, .replicas = {.restarts = 4, .changing_to = 3}});
  EXPECT_EQ(changing["tp"], 2);
  EXPECT_EQ(changing["restarts"], 4);
  EXPECT_EQ(changing["changing_to_tp"], 3);
  EXPECT_TRUE(changing["change_failure"].is_null());
  EXPECT_EQ(status({.replicas = {.change_failure = "too many"}})["change_failure"], "too many");
}

TEST(StatusJson, SaysThatARequestWithoutASlotWaits) {
  Metrics metrics;
  metrics.on_started(request(7, "req_seven"));
  const Json status = status_of({.slots = {Slot{.state = "kept", .tokens = 9}}}, metrics);
  EXPECT_EQ(status["requests"][0]["state"], "waiting");
  EXPECT_EQ(status["requests"][0]["slots"], Json::array());
}

TEST(StatusJson, NamesNoRequestOfAnotherClientOfTheEngine) {
  Metrics metrics;
  metrics.on_started(request(7, "req_seven"));
  const Json status = status_of({.slots = {Slot{.state = "decode", .request = 7, .tokens = 9}}}, metrics);
  EXPECT_TRUE(status["slots"][0]["request"].is_null());
  EXPECT_EQ(status["requests"][0]["state"], "waiting");
}

TEST(StatusJson, IsJsonWhateverAClientCallsItsRequest) {
  Metrics metrics;
  metrics.on_started(request(7, "\"}\n\xff<script>"));
  EXPECT_EQ(status_of({}, metrics)["requests"][0]["id"], "\"}\n\uFFFD<script>");
}

}  // namespace
}  // namespace lockstep::serve
