// The exchange of one request on a connection.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "launcher/serve/http/connection.h"
#include "launcher/serve/http/exchange.h"

namespace lockstep::serve {

/// Attached to its connection until the response is complete or the client left; inert afterwards.
class ConnectionExchange final : public Exchange, public std::enable_shared_from_this<ConnectionExchange> {
 public:
  ConnectionExchange(std::shared_ptr<Connection> connection, HttpRequest request)
      : loop_(connection->loop()), connection_(std::move(connection)), request_(std::move(request)) {}
  ~ConnectionExchange() override;

  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override;
  void begin_stream(HttpResponse head) override;
  void write(std::string bytes) override;
  void end_stream() override;
  size_t unsent() const override { return connection_ ? connection_->unsent() : 0; }
  void on_sent(size_t bytes, std::function<void()> call) override;
  void on_disconnect(std::function<void()> call) override;

  /// Answers with an error, or breaks off the stream that has begun.
  void fail();
  /// From the connection: some bytes were sent.
  void on_progress();
  /// All were sent.
  void detach();
  /// The client left.
  void on_gone();

 private:
  enum class Progress { kWaiting, kStreaming, kAnswered };

  EventLoop& loop_;
  std::shared_ptr<Connection> connection_;  // shared with its pending reads; empty when detached
  const HttpRequest request_;
  Progress progress_ = Progress::kWaiting;
  bool is_gone_ = false;
  std::vector<std::pair<size_t, std::function<void()>>> waiting_;  // on_sent
  std::function<void()> on_disconnect_;
};

}  // namespace lockstep::serve
