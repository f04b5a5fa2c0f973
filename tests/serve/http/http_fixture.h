// A server on a thread of its own, and clients that send and receive raw bytes over loopback.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "launcher/serve/http/server.h"

namespace lockstep::serve {

/// Options with a free port.
HttpOptions test_options();

/// Paths: /echo answers with what it got, /hold and /stream leave the exchange (with a stream begun) to the test,
/// /throw throws, /drop answers nothing.
class TestServer {
 public:
  explicit TestServer(HttpOptions options = test_options());
  ~TestServer();

  /// Calls `function` on the loop's thread and returns its result.
  template <typename Function>
  auto on_loop(Function function) {
    using Value = std::invoke_result_t<Function>;
    std::packaged_task<Value()> task(std::move(function));
    auto result = task.get_future();
    loop_->post([&task] { task(); });
    return result.get();
  }

  /// Waits until `condition`, evaluated on the loop's thread, is true; fails the test after ten seconds.
  void wait_until(const std::function<bool()>& condition);

  /// Waits for the first exchange of /hold or /stream that was not returned yet.
  std::shared_ptr<Exchange> next_held();
  /// Answers a held exchange.
  void respond(std::shared_ptr<Exchange>& exchange, std::string body);

  RunningLoop& loop() { return *loop_; }
  HttpServer& server() { return *server_; }
  uint16_t port() const { return port_; }
  HttpCounters counters();
  size_t open_exchanges();
  void close_server();
  std::vector<std::string> logged();

 private:
  void handle(const std::shared_ptr<Exchange>& exchange);

  std::vector<std::string> logged_;
  Log log_;
  std::unique_ptr<RunningLoop> loop_;
  std::unique_ptr<HttpServer> server_;
  uint16_t port_ = 0;
  std::vector<std::shared_ptr<Exchange>> held_;
  std::thread thread_;
};

/// A blocking socket. Receiving fails the test after ten seconds.
class RawClient {
 public:
  explicit RawClient(uint16_t port);
  explicit RawClient(const std::string& unix_path);
  RawClient(RawClient&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  ~RawClient();

  void send(std::string_view bytes);
  void end_sending();
  void close();
  /// Ends the connection with a reset.
  void reset();

  /// Exactly `count` bytes, or fewer if the server closes.
  std::string receive(size_t count);
  /// Up to and with `end`.
  std::string receive_until(std::string_view end);
  /// Until the server closes; a reset ends the text with "<reset>".
  std::string receive_all();
  /// One response with Content-Length.
  std::string receive_response();

  int descriptor() const { return socket_; }

 private:
  bool receive_some();

  int socket_ = -1;
  std::string received_;
  bool was_reset_ = false;
};

/// "GET PATH HTTP/1.1" with a Host and further header lines, each with CRLF.
std::string get(std::string_view path, std::string_view headers = "");
std::string post(std::string_view path, std::string_view body, std::string_view headers = "");

/// 404 of "HTTP/1.1 404 Not Found…"; 0 if there is none.
int status_of(std::string_view response);
std::string body_of(std::string_view response);
/// The value of a header, by its name as sent; "" if there is none.
std::string header_of(std::string_view response, std::string_view name);

/// Sends `request` on a new connection and returns all that the server sends until it closes.
std::string exchange_bytes(uint16_t port, std::string_view request);

}  // namespace lockstep::serve
