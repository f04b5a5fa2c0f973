#include "launcher/serve/http/server.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "launcher/serve/http/connection.h"
#include "launcher/serve/http/listener.h"
#include "launcher/serve/http/server_state.h"

namespace lockstep::serve {
namespace {

/// Connections beyond the limit that get a 503; further ones are closed at once.
constexpr size_t kMostTurnedAway = 64;

Error bad_option(std::string found, std::string fix) {
  return {ErrorKind::kInvalidArgument, "[serve] cannot start: found " + std::move(found) + "; " + std::move(fix)};
}

class ListeningServer final : public HttpServer {
 public:
  explicit ListeningServer(std::shared_ptr<ServerState> state) : state_(std::move(state)) {}

  ~ListeningServer() override {
    listener_.reset();
    const std::vector<Connection*> open(state_->connections.begin(), state_->connections.end());
    for (Connection* connection : open) {
      if (state_->connections.contains(connection)) connection->close();
    }
  }

  Result<void> listen(RunningLoop& loop) {
    LOCKSTEP_TRY(listener_, serve::listen(loop, state_->options, [state = state_](auto stream, std::string peer) {
                   accept(state, std::move(stream), std::move(peer));
                 }));
    address_ = listener_->address();
    port_ = listener_->port();
    return ok();
  }

  std::string address() const override { return address_; }
  uint16_t port() const override { return port_; }

  void close_after_answers() override { state_->closes_after_answers = true; }

  void stop_accepting() override {
    state_->closes_after_answers = state_->is_draining = true;
    listener_.reset();
    const std::vector<Connection*> open(state_->connections.begin(), state_->connections.end());
    for (Connection* connection : open) {
      if (state_->connections.contains(connection)) connection->drain();
    }
  }

  size_t open_exchanges() const override { return state_->open_exchanges; }

  HttpCounters counters() const override {
    HttpCounters counters = state_->counters;
    counters.connections = state_->connections.size();
    return counters;
  }

 private:
  static void accept(const std::shared_ptr<ServerState>& state, std::unique_ptr<ByteStream> stream, std::string peer) {
    ++state->counters.accepted;
    const size_t open = state->connections.size();
    if (open >= state->options.limits.connections + kMostTurnedAway) return;
    const auto connection = std::make_shared<Connection>(state, std::move(stream), std::move(peer));
    open < state->options.limits.connections ? connection->start() : connection->turn_away();
  }

  const std::shared_ptr<ServerState> state_;  // shared with the connections
  std::unique_ptr<Listener> listener_;
  std::string address_;
  uint16_t port_ = 0;
};

}  // namespace

Result<void> HttpOptions::validate() const {
  if (tls_certificate.empty() != tls_key.empty()) {
    return bad_option("only one of certificate and key", "name both --tls-cert and --tls-key, or neither");
  }
  if (cors_origin.find_first_of(" ,\r\n\t") != std::string::npos) {
    return bad_option("the origin \"" + cors_origin + "\", expected one origin or *", "correct --cors-origin");
  }
  if (limits.connections == 0 || limits.head_bytes == 0 || limits.uri_bytes == 0 || limits.body_bytes == 0) {
    return bad_option("a limit of 0, expected at least 1", "raise it");
  }
  if (limits.unfinished_bytes < limits.body_bytes) {
    return bad_option("a limit of all unfinished bodies below that of one body, expected at least as much", "raise it");
  }
  return ok();
}

std::string RequestIds::id_for(const HttpRequest& request) {
  constexpr size_t kLongest = 128;
  const auto is_harmless = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_.:+/=@").find(c) != std::string_view::npos;
  };
  const auto own = request.header("x-request-id");
  if (own && !own->empty() && own->size() <= kLongest && std::all_of(own->begin(), own->end(), is_harmless)) {
    return std::string(*own);
  }
  const uint64_t high = random_();
  return fmt::format("req_{:016x}{:016x}", high, random_());
}

Result<std::unique_ptr<HttpServer>> HttpServer::open(RunningLoop& loop, HttpOptions options, Handler handler) {
  LOCKSTEP_TRY_VOID(options.validate());
  auto server =
      std::make_unique<ListeningServer>(std::make_shared<ServerState>(loop, std::move(options), std::move(handler)));
  LOCKSTEP_TRY_VOID(server->listen(loop));
  return server;
}

}  // namespace lockstep::serve
