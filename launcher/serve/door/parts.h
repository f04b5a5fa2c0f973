// The parts of a running server, which its routes, its watch over the engine and its shutdown share.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/serve/api/api.h"
#include "launcher/serve/door/api_keys.h"
#include "launcher/serve/door/endpoint_file.h"
#include "launcher/serve/door/health.h"
#include "launcher/serve/door/metrics.h"
#include "launcher/serve/door/options.h"
#include "launcher/serve/door/request_log.h"
#include "launcher/serve/engine/lasting_engine.h"
#include "launcher/serve/http/event_loop.h"
#include "launcher/serve/http/server.h"
#include "runtime/core/log.h"

namespace lockstep::serve {

/// The id that clients use: the option, or the directory's name.
std::string model_id(const DoorOptions& options);

/// A change of the number of ranks that is under way.
struct RankChange {
  int ranks = 0;       // the new number
  bool grows = false;  // true: back to the number before a loss; false: a client asked for it
  /// Called at its end with the reason of a failure; empty: the new ranks serve.
  std::vector<std::function<void(const std::string& failure)>> on_end = {};
};

/// Neither copied nor moved; on the loop's thread. A pointer is null until its part exists.
struct DoorParts {
  DoorParts(DoorOptions the_options, const Log& the_log, RequestLog::Sink request_line)
      : options(std::move(the_options)),
        log(the_log),
        loop(make_loop(&log)),
        health(duration_of(options.silence_s)),
        request_log(log_format(options.log_format), std::move(request_line)) {}

  static TimePoint now() { return std::chrono::steady_clock::now(); }

  /// Whether the engine has requests.
  bool is_working() const { return api != nullptr && api->open_sequences() > 0; }
  std::string_view state_word() const { return health.word(now(), is_working()); }

  /// The engine is lost, or never was there. The latest reason says most.
  void note_loss(const Error& error) {
    loss = error;
    status.running = status.queued = 0;
    status.ranks = ranks_after_loss(status.ranks.size(), error.origin_rank);
  }

  const DoorOptions options;
  const Log& log;
  const std::unique_ptr<RunningLoop> loop;
  ApiKeys keys;
  Health health;
  Metrics metrics;
  RequestLog request_log;
  EngineStatus status;        // the last one that the engine gave
  std::optional<Error> loss;  // of the engine; none: it serves, or was never there
  int restarts = 0;           // of the engine
  std::optional<RankChange> change;
  std::string change_failure;  // of the last change; empty: it has succeeded, or there was none
  const SteadyClock clock{};
  LastingEngine engine{clock};
  std::unique_ptr<HttpServer> server;
  std::unique_ptr<Api> api;
  std::unique_ptr<EndpointFile> endpoint;
};

}  // namespace lockstep::serve
