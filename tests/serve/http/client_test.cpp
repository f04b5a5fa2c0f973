#include "launcher/serve/http/client.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "launcher/serve/http/event_loop.h"
#include "launcher/serve/http/server.h"

namespace lockstep::serve {
namespace {

using namespace std::chrono_literals;

/// A server on a thread of its own, which says what it was asked, and nothing to /never.
class ClientTest : public ::testing::Test {
 protected:
  void start(HttpOptions options) {
    server_ =
        HttpServer::open(*loop_, std::move(options), [this](const std::shared_ptr<Exchange>& exchange) {
          const HttpRequest& request = exchange->request();
          if (request.path == "/never") return kept_.push_back(exchange);
          const auto key = request.header("authorization");
          exchange->respond(
              {.status = 202, .body = request.method + " " + request.body + " " + std::string(key.value_or("none"))});
        }).value();
    thread_ = std::thread([this] { loop_->run(); });
  }
  void TearDown() override {
    if (!thread_.joinable()) return;
    loop_->post([this] { loop_->stop(); });
    thread_.join();
    kept_.clear();
    server_.reset();
  }

  const std::unique_ptr<RunningLoop> loop_ = make_loop(nullptr);
  std::vector<std::shared_ptr<Exchange>> kept_;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

TEST_F(ClientTest, SendsARequestAndReadsTheAnswer) {
  start({.host = "127.0.0.1", .port = 0});
  const auto answer =
      ask(server_->address(), {.method = "POST", .path = "/x", .headers = {{"Authorization", "Bearer k"}}, .body = "b"},
          30s);
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(answer.value().status, 202);
  EXPECT_EQ(answer.value().body, "POST b Bearer k");
}

TEST_F(ClientTest, ReachesAUnixSocket) {
  const auto path =
      std::filesystem::path(::testing::TempDir()) / ("client_test_" + std::to_string(::getpid()) + ".sock");
  start({.unix_socket = path.string()});
  EXPECT_EQ(ask("unix:" + path.string(), {.method = "GET", .path = "/"}, 30s).value().body, "GET  none");
}

TEST_F(ClientTest, GivesUpWhenNoAnswerComes) {
  start({.host = "127.0.0.1", .port = 0});
  EXPECT_EQ(ask(server_->address(), {.method = "GET", .path = "/never"}, 200ms).error().kind,
            ErrorKind::kDeadlineExceeded);
}

TEST_F(ClientTest, SaysWhatItCannotReach) {
  EXPECT_EQ(ask("unix:/nowhere", {.method = "GET", .path = "/"}, 30s).error().kind, ErrorKind::kUnavailable);
  EXPECT_EQ(ask("https://127.0.0.1:1", {.method = "GET", .path = "/"}, 30s).error().kind, ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace lockstep::serve
