#include "launcher/serve/door/request_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace lockstep::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

class RequestLogTest : public testing::Test {
 protected:
  RequestLog log(LogFormat format) {
    return {format, [this](std::string_view line) { lines_.emplace_back(line); },
            [] { return std::chrono::sys_days(std::chrono::January / 31 / 2026) + 12h + 250ms; }};
  }

  std::vector<std::string> lines_;
  ApiRequest request_{.number = 3,
                      .id = "req_1",
                      .endpoint = "/v1/completions",
                      .peer = "127.0.0.1:50312",
                      .stream = true,
                      .choices = 2,
                      .prompt_tokens = 12};
  ApiEnd end_{.status = 200, .outcome = "stop", .error = "", .cached_tokens = 8, .new_tokens = 5, .duration = 105ms};
};

TEST_F(RequestLogTest, WritesALineOfWordsWhenARequestHasEnded) {
  RequestLog log = this->log(LogFormat::kText);
  log.on_started(request_);
  log.on_first_token(request_, 31400us);
  log.on_tokens(request_, 5, 10ms);
  EXPECT_TRUE(lines_.empty());
  end_.waited = 2ms;
  log.on_ended(request_, end_);
  EXPECT_THAT(lines_, ElementsAre("[serve] 2026-01-31T12:00:00.250Z request id=req_1 client=127.0.0.1:50312 "
                                  "endpoint=/v1/completions status=200 outcome=stop stream=true choices=2 "
                                  "prompt_tokens=12 cached_tokens=8 new_tokens=5 queue_s=0.002 ttft_s=0.031 "
                                  "duration_s=0.105"));
}

TEST_F(RequestLogTest, WritesAnObjectOnALineAsJson) {
  RequestLog log = this->log(LogFormat::kJson);
  log.on_first_token(request_, 31ms);
  log.on_ended(request_, end_);
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(nlohmann::json::parse(lines_[0]), nlohmann::json::parse(R"({"time": "2026-01-31T12:00:00.250Z",
    "event": "request", "id": "req_1", "client": "127.0.0.1:50312", "endpoint": "/v1/completions", "status": 200,
    "outcome": "stop", "stream": true, "choices": 2, "prompt_tokens": 12, "cached_tokens": 8, "new_tokens": 5,
    "ttft_s": 0.031, "duration_s": 0.105})"));
  EXPECT_THAT(lines_[0], Not(HasSubstr("\n")));
}

TEST_F(RequestLogTest, LeavesOutATimeToTheFirstTokenThatThereWasNone) {
  RequestLog log = this->log(LogFormat::kText);
  end_.outcome = "cancelled";
  log.on_ended(request_, end_);
  EXPECT_THAT(lines_[0], Not(HasSubstr("ttft_s")));
}

TEST_F(RequestLogTest, KeepsTheTimeOfTheFirstSequenceAndForgetsAnEndedRequest) {
  RequestLog log = this->log(LogFormat::kText);
  log.on_first_token(request_, 1ms);
  log.on_first_token(request_, 2ms);
  log.on_ended(request_, end_);
  log.on_ended(request_, end_);
  EXPECT_THAT(lines_[0], HasSubstr("ttft_s=0.001"));
  EXPECT_THAT(lines_[1], Not(HasSubstr("ttft_s")));
}

TEST_F(RequestLogTest, ShowsTheServersErrorsButNotRefusalsWhichMayQuoteTheRequest) {
  RequestLog log = this->log(LogFormat::kText);
  end_.outcome = "error";
  end_.error = "rank 1 was lost";
  end_.status = 503;
  log.on_ended(request_, end_);
  EXPECT_THAT(lines_.back(), HasSubstr(" error=\"rank 1 was lost\""));
  end_.status = 400;
  log.on_ended(request_, end_);
  EXPECT_THAT(lines_.back(), Not(HasSubstr("rank 1")));
}

TEST_F(RequestLogTest, NeverLetsAClientWriteALineOrAWordOfItsOwn) {
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    RequestLog log = this->log(format);
    request_.id = "a\nrequest status=500 \"x\" \xff";
    log.on_ended(request_, end_);
    EXPECT_THAT(lines_.back(), Not(HasSubstr("\n")));
    EXPECT_THAT(lines_.back(), HasSubstr(R"("a\nrequest status=500 \"x\" )"));
  }
}

TEST_F(RequestLogTest, WritesAnswersThatNeededNoEngine) {
  RequestLog log = this->log(LogFormat::kText);
  log.on_answered({.id = "req_2", .endpoint = "/v1/models", .peer = "127.0.0.1:50313"}, 401);
  log.refused({.id = "req_3", .peer = "127.0.0.1:50314", .status = 413, .code = "body_too_large"});
  EXPECT_THAT(lines_, ElementsAre("[serve] 2026-01-31T12:00:00.250Z request id=req_2 client=127.0.0.1:50313 "
                                  "endpoint=/v1/models status=401",
                                  "[serve] 2026-01-31T12:00:00.250Z request id=req_3 client=127.0.0.1:50314 status=413 "
                                  "error=body_too_large"));
}

TEST(MessageLine, IsTheMessageOrAnObject) {
  const auto noon = std::chrono::sys_days(std::chrono::January / 31 / 2026) + 12h;
  EXPECT_EQ(message_line(LogFormat::kText, LogLevel::kInfo, "serves", noon), "[serve] serves");
  EXPECT_EQ(message_line(LogFormat::kText, LogLevel::kError, "[engine] lost", noon), "[engine] lost");
  EXPECT_EQ(nlohmann::json::parse(message_line(LogFormat::kJson, LogLevel::kError, "lost \"it\"", noon)),
            nlohmann::json::parse(R"({"time": "2026-01-31T12:00:00.000Z", "event": "message", "level": "error",
              "message": "lost \"it\""})"));
}

}  // namespace
}  // namespace lockstep::serve
