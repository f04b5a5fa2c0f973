// The parts of a running server, which its routes, its watch over the engine and its shutdown share.
#pragma once

#include <chrono>
#include <functional>
#include <map>
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
#include "launcher/serve/engine/combined.h"
#include "launcher/serve/engine/lasting_engine.h"
#include "launcher/serve/http/event_loop.h"
#include "launcher/serve/http/server.h"
#include "runtime/core/log.h"

namespace lockstep::serve {

/// The id that clients use: the option, or the directory's name.
std::string model_id(const DoorOptions& options);

/// Neither copied nor moved; on the loop's thread. A pointer is null until its part exists.
struct DoorParts {
  DoorParts(DoorOptions the_options, const Log& the_log, RequestLog::Sink request_line)
      : options(std::move(the_options)),
        log(the_log),
        loop(make_loop(&log)),
        health(duration_of(options.replicas.silence_s)),
        request_log(log_format(options.log_format), std::move(request_line)) {}

  static TimePoint now() { return std::chrono::steady_clock::now(); }

  /// Whether the engine has requests.
  bool is_working() const { return api != nullptr && api->open_sequences() > 0; }
  std::string_view state_word() const { return health.word(now(), is_working()); }

  /// What all replicas are together.
  EngineStatus status() const { return combined(statuses); }
  /// Of the first replica that is lost; none: all serve, or there was none yet.
  std::optional<Error> loss() const { return losses.empty() ? std::nullopt : std::optional(losses.begin()->second); }

  /// A replica is lost. The latest reason says most.
  void note_loss(const Error& error, size_t replica) {
    losses.insert_or_assign(replica, error);
    if (statuses.size() <= replica) statuses.resize(replica + 1);
    EngineStatus& status = statuses[replica];
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
  std::vector<EngineStatus> statuses;  // the last one that each replica gave
  std::map<size_t, Error> losses;      // of replicas
  const SteadyClock clock{};
  LastingEngine engine{clock};
  std::unique_ptr<HttpServer> server;
  std::unique_ptr<Api> api;
  std::unique_ptr<EndpointFile> endpoint;
};

}  // namespace lockstep::serve
