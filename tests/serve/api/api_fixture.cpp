#include "tests/serve/api/api_fixture.h"

#include <fmt/format.h>

namespace lockstep::serve {

void RecordingObserver::on_started(const ApiRequest& r) {
  lines.push_back(fmt::format("started {} {} choices {} prompt {}", r.number, r.endpoint, r.choices, r.prompt_tokens));
}
void RecordingObserver::on_first_token(const ApiRequest& r, Duration waited) {
  lines.push_back(fmt::format("first {} after {}", r.number, to_seconds(waited)));
}
void RecordingObserver::on_tokens(const ApiRequest& r, size_t count, Duration gap) {
  lines.push_back(fmt::format("tokens {} {} gap {}", r.number, count, to_seconds(gap)));
}
void RecordingObserver::on_ended(const ApiRequest& r, const ApiEnd& e) {
  lines.push_back(fmt::format("ended {} {} {} cached {} new {} in {}", r.number, e.status, e.outcome, e.cached_tokens,
                              e.new_tokens, to_seconds(e.duration)));
}
void RecordingObserver::on_answered(const ApiRequest& r, int status) {
  lines.push_back(fmt::format("answered {} {} {} {}", r.endpoint, r.id, r.peer, status));
}

ApiTest::ApiTest()
    : directory_(std::filesystem::path(::testing::TempDir()) /
                 ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
  std::filesystem::create_directories(directory_);
  write_tiny_model(directory_);
  options_ = {.model = "tiny", .model_directory = directory_, .created = 7};
  options_.unix_time = [] { return 1000; };
  options_.random = [] { return uint64_t{99}; };
  options_.clock = &clock_;
  restart();
}

ApiTest::~ApiTest() {
  loop_.run();
  std::filesystem::remove_all(directory_);
}

void ApiTest::restart() { api_ = Api::make(options_, engine_, loop_, observer_).value(); }

void ApiTest::write_file(const char* name, std::string_view text) const { serve::write_file(directory_ / name, text); }

std::shared_ptr<FakeExchange> ApiTest::send(std::string method, std::string path, std::string body) {
  auto exchange = std::make_shared<FakeExchange>();
  exchange->sent = {.method = std::move(method),
                    .path = std::move(path),
                    .headers = {{"content-type", "application/json"}},
                    .body = std::move(body),
                    .peer = "127.0.0.1:5000",
                    .id = "r1"};
  EXPECT_TRUE(api_->handle(exchange));
  loop_.run();
  return exchange;
}

}  // namespace lockstep::serve
