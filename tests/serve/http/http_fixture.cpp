#include "tests/serve/http/http_fixture.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "runtime/core/check.h"

namespace lockstep::serve {
namespace {

constexpr auto kLongestWait = std::chrono::seconds(10);

struct Wait {
  std::function<bool()> condition;
  std::promise<bool> done;
  std::unique_ptr<Timer> timer;
  SteadyClock clock;
  Deadline deadline{clock, kLongestWait};

  void check(EventLoop& loop) {
    if (condition()) return done.set_value(true);
    if (deadline.has_passed()) return done.set_value(false);
    timer = loop.after(std::chrono::milliseconds(1), [this, &loop] { check(loop); });
  }
};

}  // namespace

HttpOptions test_options() {
  HttpOptions options;
  options.port = 0;
  return options;
}

TestServer::TestServer(HttpOptions options)
    : log_([this](LogLevel, std::string_view line) { logged_.emplace_back(line); }), loop_(make_loop(&log_)) {
  options.log = &log_;
  server_ = HttpServer::open(*loop_, std::move(options), [this](std::shared_ptr<Exchange> e) { handle(e); }).value();
  port_ = server_->port();
  thread_ = std::thread([this] { loop_->run(); });
}

TestServer::~TestServer() {
  on_loop([this] {
    held_.clear();
    server_.reset();
  });
  loop_->stop();
  thread_.join();
}

void TestServer::handle(const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  if (request.path == "/throw") throw std::runtime_error("no luck");
  if (request.path == "/hold") return held_.push_back(exchange);
  if (request.path == "/stream") {
    exchange->begin_stream({.content_type = "text/event-stream"});
    return held_.push_back(exchange);
  }
  if (request.path == "/drop") return;
  exchange->respond({.content_type = "text/plain",
                     .body = request.method + " " + request.path + "?" + request.query + " " + request.body});
}

void TestServer::wait_until(const std::function<bool()>& condition) {
  Wait wait{.condition = condition};
  auto done = wait.done.get_future();
  loop_->post([&] { wait.check(*loop_); });
  const bool became_true = done.get();
  on_loop([&] { wait.timer.reset(); });
  ASSERT_TRUE(became_true) << "the condition did not become true in ten seconds";
}

std::shared_ptr<Exchange> TestServer::next_held() {
  wait_until([this] { return !held_.empty(); });
  return on_loop([this] {
    LOCKSTEP_CHECK(!held_.empty());
    auto first = std::move(held_.front());
    held_.erase(held_.begin());
    return first;
  });
}

void TestServer::respond(std::shared_ptr<Exchange>& exchange, std::string body) {
  on_loop([&] {
    exchange->respond({.body = std::move(body)});
    exchange.reset();
  });
}

HttpCounters TestServer::counters() {
  return on_loop([this] { return server_->counters(); });
}

size_t TestServer::open_exchanges() {
  return on_loop([this] { return server_->open_exchanges(); });
}

void TestServer::close_server() {
  on_loop([this] { server_.reset(); });
}

std::vector<std::string> TestServer::logged() {
  return on_loop([this] { return logged_; });
}

RawClient::RawClient(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error(std::string("connect: ") + std::strerror(errno));
  }
}

RawClient::RawClient(const std::string& unix_path) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, unix_path.c_str(), sizeof address.sun_path - 1);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error(std::string("connect: ") + std::strerror(errno));
  }
}

RawClient::~RawClient() { close(); }

void RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // the server closed; what it said can still be received
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

void RawClient::end_sending() { ::shutdown(socket_, SHUT_WR); }

void RawClient::close() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

void RawClient::reset() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close();
}

bool RawClient::receive_some() {
  pollfd ready{.fd = socket_, .events = POLLIN, .revents = 0};
  const int timeout = static_cast<int>(std::chrono::milliseconds(kLongestWait).count());
  if (::poll(&ready, 1, timeout) != 1) {
    ADD_FAILURE() << "nothing received in ten seconds, after: " << received_;
    return false;
  }
  char buffer[16 << 10];
  const auto count = ::recv(socket_, buffer, sizeof buffer, 0);
  was_reset_ = count < 0;
  if (count <= 0) return false;
  received_.append(buffer, static_cast<size_t>(count));
  return true;
}

std::string RawClient::receive(size_t count) {
  while (received_.size() < count && receive_some()) {
  }
  const std::string taken = received_.substr(0, count);
  received_.erase(0, count);
  return taken;
}

std::string RawClient::receive_until(std::string_view end) {
  size_t found = received_.find(end);
  for (size_t seen = received_.size(); found == std::string::npos && receive_some(); seen = received_.size()) {
    found = received_.find(end, seen - std::min(seen, end.size()));
  }
  return receive(found == std::string::npos ? received_.size() : found + end.size());
}

std::string RawClient::receive_all() {
  while (receive_some()) {
  }
  return std::exchange(received_, "") + (was_reset_ ? "<reset>" : "");
}

std::string RawClient::receive_response() {
  std::string response = receive_until("\r\n\r\n");
  const std::string length = header_of(response, "Content-Length");
  return response + receive(length.empty() ? 0 : std::stoul(length));
}

std::string get(std::string_view path, std::string_view headers) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n" + std::string(headers) + "\r\n";
}

std::string post(std::string_view path, std::string_view body, std::string_view headers) {
  return "POST " + std::string(path) + " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n" + std::string(headers) + "\r\n" + std::string(body);
}

int status_of(std::string_view response) {
  constexpr std::string_view kStart = "HTTP/1.1 ";
  return response.starts_with(kStart) ? std::atoi(std::string(response.substr(kStart.size(), 3)).c_str()) : 0;
}

std::string body_of(std::string_view response) {
  const auto end = response.find("\r\n\r\n");
  return end == std::string_view::npos ? "" : std::string(response.substr(end + 4));
}

std::string header_of(std::string_view response, std::string_view name) {
  const std::string_view head = response.substr(0, response.find("\r\n\r\n"));
  const auto at = head.find("\r\n" + std::string(name) + ": ");
  if (at == std::string_view::npos) return "";
  const auto begin = at + 2 + name.size() + 2;
  return std::string(head.substr(begin, head.find("\r\n", begin) - begin));
}

std::string exchange_bytes(uint16_t port, std::string_view request) {
  RawClient client(port);
  client.send(request);
  return client.receive_all();
}

}  // namespace lockstep::serve
