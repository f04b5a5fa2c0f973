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
  bool closes_after_answers = false;
  bool is_draining = false;
  std::unordered_set<Connection*> connections;  // each removes itself when it closes
};

}  // namespace lockstep::serve
