// What the connections of one server share.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <unordered_set>

#include "launcher/serve/http/response_head.h"
#include "launcher/serve/http/server.h"

namespace lockstep::serve {

class Connection;

/// Ids of requests: the client's own if it is short and harmless in a log, else a random one.
class RequestIds {
 public:
  std::string id_for(const HttpRequest& request);

 private:
  std::mt19937_64 random_{std::random_device{}()};
};

/// What one connection holds of a body that is incomplete, as part of the total of all.
class UnfinishedBody {
 public:
  /// `total` outlives it.
  explicit UnfinishedBody(size_t& total) : total_(total) {}
  ~UnfinishedBody() { set(0); }
  UnfinishedBody(const UnfinishedBody&) = delete;
  UnfinishedBody& operator=(const UnfinishedBody&) = delete;

  void set(size_t bytes) {
    total_ += bytes - bytes_;  // modulo 2⁶⁴
    bytes_ = bytes;
  }

 private:
  size_t& total_;
  size_t bytes_ = 0;
};

/// On the loop's thread.
struct ServerState {
  ServerState(EventLoop& its_loop, HttpOptions its_options, Handler its_handler)
      : loop(its_loop), options(std::move(its_options)), handler(std::move(its_handler)) {}

  void report(std::string_view line) const {
    if (options.log != nullptr) options.log->write(LogLevel::kError, line);
  }

  EventLoop& loop;
  const HttpOptions options;
  const Handler handler;
  HttpCounters counters;
  DateLine date;
  RequestIds ids;
  size_t open_exchanges = 0;
  size_t unfinished_bytes = 0;  // of all connections
  bool closes_after_answers = false;
  bool is_draining = false;
  std::unordered_set<Connection*> connections;  // each removes itself when it closes
};

}  // namespace lockstep::serve
