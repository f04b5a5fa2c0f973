#include "launcher/serve/door/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/serve/api/fake_server.h"

namespace lockstep::serve {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(IsPublic, OnlyHealthMetricsAndThePageNeedNoKey) {
  for (const char* path : {"/", "/metrics", "/health", "/health/live", "/health/ready"}) {
    EXPECT_TRUE(is_public(path)) << path;
  }
  for (const char* path : {"/v1/models", "/v1", "/tokenize", "/admin/status", "/healthy", "/metrics/", ""}) {
    EXPECT_FALSE(is_public(path)) << path;
  }
}

/// A server whose engine has not started yet.
class RoutesTest : public ::testing::Test {
 protected:
  std::shared_ptr<FakeExchange> send(const std::string& method, const std::string& path, Headers headers = {}) {
    const auto exchange = std::make_shared<FakeExchange>();
    exchange->sent = {
        .method = method, .path = path, .headers = std::move(headers), .peer = "127.0.0.1:5000", .id = "r1"};
    if (auto refused = routes_.refuse_head(exchange->sent)) {  // as the HTTP server asks
      exchange->respond(*std::move(refused));
    } else {
      routes_.handle(exchange);
    }
    return exchange;
  }

  std::vector<std::string> lines_;
  const Log log_{[](LogLevel, std::string_view) {}};
  DoorParts parts_{DoorOptions{.model = "/models/tiny"}, log_,
                   [this](std::string_view line) { lines_.emplace_back(line); }};
  EngineWatch watch_{parts_, {.on_status = [](size_t, const EngineStatus&) {}, .on_silent = [](size_t) {}}};
  std::optional<int> asked_;  // ranks
  std::optional<Error> refusal_;
  bool changes_ = false;      // something has to be changed
  Replica::OnChanged ended_;  // of that
  Routes routes_{parts_,
                 watch_,
                 {.change_ranks = [this](std::optional<int> ranks, Replica::OnChanged done) -> Result<bool> {
                    if (refusal_) return *refusal_;
                    asked_ = ranks;
                    changes_ ? void(ended_ = std::move(done)) : done({});
                    return changes_;
                  },
                  .state = [] { return Replicas::State{.replicas = {"serving"}}; }}};
};

TEST_F(RoutesTest, SayThatTheServerStarts) {
  EXPECT_EQ(send("GET", "/health")->status(), 503);
  EXPECT_EQ(send("GET", "/health/ready")->json()["state"], "starting");
  EXPECT_EQ(send("GET", "/health/live")->status(), 200);
  EXPECT_EQ(send("GET", "/admin/status")->json()["model"], "tiny");
  EXPECT_TRUE(lines_.empty());  // no line for each look of a watcher
}

TEST_F(RoutesTest, RefuseRequestsUntilTheServerIsReady) {
  const auto refused = send("POST", "/v1/completions");
  EXPECT_EQ(refused->status(), 503);
  EXPECT_EQ(refused->json()["error"]["code"], "starting");
  EXPECT_THAT(refused->response->headers, Contains(std::pair<std::string, std::string>("Retry-After", "2")));
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("id=r1 client=127.0.0.1:5000 endpoint=/v1/completions status=503")));
}

TEST_F(RoutesTest, AskForAKeyBeforeAnythingElse) {
  parts_.keys = ApiKeys::parse("secret", "test").value();
  EXPECT_EQ(send("GET", "/health")->status(), 503);
  EXPECT_EQ(send("GET", "/admin/status")->status(), 401);
  EXPECT_EQ(send("DELETE", "/nothing")->status(), 401);
  EXPECT_EQ(send("GET", "/admin/status", {{"x-api-key", "secret"}})->status(), 200);
  EXPECT_THAT(lines_,
              ElementsAre(HasSubstr("endpoint=/admin/status status=401"), HasSubstr("endpoint=/nothing status=401")));
}

TEST_F(RoutesTest, RefuseTheHeadOfARequestWithoutAKeyAndOfABodyForAPublicPath) {
  const HttpRequest completion{.method = "POST", .path = "/v1/completions", .headers = {{"content-length", "9"}}};
  EXPECT_FALSE(routes_.refuse_head(completion));  // there are no keys
  parts_.keys = ApiKeys::parse("secret", "test").value();
  const auto refused = routes_.refuse_head(completion);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 401);
  EXPECT_THAT(refused->headers, Contains(std::pair<std::string, std::string>("WWW-Authenticate", "Bearer")));
  EXPECT_EQ(lines_.size(), 1u);
  HttpRequest with_key = completion;
  with_key.headers.emplace_back("authorization", "Bearer secret");
  EXPECT_FALSE(routes_.refuse_head(with_key));
  EXPECT_FALSE(routes_.refuse_head({.method = "GET", .path = "/health", .headers = {{"content-length", "0"}}}));
  EXPECT_TRUE(routes_.refuse_head({.method = "POST", .path = "/health", .headers = {{"content-length", "9"}}}));
  EXPECT_TRUE(routes_.refuse_head({.method = "GET", .path = "/", .headers = {{"transfer-encoding", "chunked"}}}));
}

TEST_F(RoutesTest, OnlyReadTheServersOwnPaths) {
  const auto refused = send("POST", "/health");
  EXPECT_EQ(refused->status(), 405);
  EXPECT_THAT(refused->response->headers, Contains(std::pair<std::string, std::string>("Allow", "GET, HEAD")));
}

TEST_F(RoutesTest, ChangeTheNumberOfRanks) {
  const Headers json = {{"content-type", "application/json"}};
  const auto post = [&](std::string body, Headers headers) {
    const auto exchange = std::make_shared<FakeExchange>();
    exchange->sent = {
        .method = "POST", .path = "/admin/degree", .headers = std::move(headers), .body = std::move(body)};
    routes_.handle(exchange);
    return exchange;
  };
  EXPECT_EQ(post(R"({"tp": 3})", json)->status(), 200);
  EXPECT_EQ(asked_, 3);
  EXPECT_EQ(post(R"({"tp": 4})", {{"content-type", "text/plain"}})->status(), 415);  // a form of another site's page
  EXPECT_EQ(post("{}", json)->json()["error"]["param"], "tp");
  EXPECT_EQ(post(R"({"tp": 0})", json)->status(), 400);
  EXPECT_EQ(send("GET", "/admin/degree")->status(), 405);
  changes_ = true;
  EXPECT_EQ(post(R"({"tp": 3})", json)->status(), 202);
  EXPECT_EQ(asked_, 3);
  refusal_ = Error{ErrorKind::kFailedPrecondition, "another change"};
  const auto refused = post(R"({"tp": 2})", json);
  EXPECT_EQ(refused->status(), 409);
  EXPECT_EQ(refused->json()["error"]["message"], "another change");
}

TEST_F(RoutesTest, StartAsManyRanksAnew) {
  const auto post = [&](std::string body) {
    const auto exchange = std::make_shared<FakeExchange>();
    exchange->sent = {.method = "POST",
                      .path = "/admin/restart",
                      .headers = {{"content-type", "application/json"}},
                      .body = std::move(body)};
    routes_.handle(exchange);
    return exchange;
  };
  asked_ = 7;
  changes_ = true;
  EXPECT_EQ(post("{}")->status(), 202);
  EXPECT_EQ(asked_, std::nullopt);
  const auto waits = post(R"({"wait": true})");
  EXPECT_FALSE(waits->response.has_value());
  ended_({});
  EXPECT_EQ(waits->status(), 200);
  EXPECT_EQ(post(R"({"wait": 1})")->status(), 400);
  EXPECT_EQ(send("GET", "/admin/restart")->status(), 405);
}

TEST_F(RoutesTest, AnswerAtTheEndOfAChangeWhereTheClientWaits) {
  for (const std::string failure : {"", "no memory"}) {
    changes_ = true;
    const auto exchange = std::make_shared<FakeExchange>();
    exchange->sent = {.method = "POST",
                      .path = "/admin/degree",
                      .headers = {{"content-type", "application/json"}},
                      .body = R"({"tp": 3, "wait": true})"};
    routes_.handle(exchange);
    EXPECT_FALSE(exchange->response.has_value());
    ended_(failure);
    EXPECT_EQ(exchange->status(), failure.empty() ? 200 : 409);
    if (!failure.empty()) {
      EXPECT_EQ(exchange->json()["error"]["message"], failure);
    }
  }
}

TEST_F(RoutesTest, NameTheLostRankForTheRestOfTheServersLife) {
  parts_.statuses = {{.ranks = {"ready", "ready"}}};
  parts_.health.note_lost();
  parts_.note_loss({ErrorKind::kPeerLost, "rank 1 was killed", /*origin_rank=*/1}, /*replica=*/0);
  for (const char* path : {"/health", "/health/ready", "/health/live"}) {
    const auto answer = send("GET", path);
    EXPECT_EQ(answer->status(), 503) << path;
    EXPECT_EQ(answer->json()["ranks"], Document({"ended", "lost"}));
    EXPECT_EQ(answer->json()["loss"], Document({{"rank", 1}, {"message", "rank 1 was killed"}}));
  }
  EXPECT_EQ(send("POST", "/v1/completions")->json()["error"]["code"], "lost");
}

}  // namespace
}  // namespace lockstep::serve
