#include "launcher/serve/door/door.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "launcher/serve/door/engine_watch.h"
#include "launcher/serve/door/parts.h"
#include "launcher/serve/door/routes.h"
#include "launcher/serve/door/shutdown.h"
#include "launcher/serve/replicas/replicas.h"
#include "runtime/core/atomic_file.h"

namespace lockstep::serve {
namespace {

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

Result<ApiKeys> keys_of(const DoorOptions& options) {
  if (options.api_key_file.empty()) return ApiKeys();
  LOCKSTEP_TRY(const std::string text, read_text_file(options.api_key_file, "--api-key-file"));
  return ApiKeys::parse(text, "--api-key-file");
}

HttpOptions http_options(const DoorOptions& options, const Log& log) {
  HttpOptions http{.host = options.host,
                   .port = static_cast<uint16_t>(options.port),
                   .unix_socket = options.unix_socket,
                   .tls_certificate = options.tls_certificate,
                   .tls_key = options.tls_key,
                   .cors_origin = options.cors_origin,
                   .log = &log};
  http.limits.connections = static_cast<size_t>(options.max_connections);
  http.limits.body_bytes = static_cast<size_t>(options.max_body_mib * 1024 * 1024);
  http.limits.unfinished_bytes = std::max(http.limits.unfinished_bytes, http.limits.body_bytes);
  return http;
}

/// What happens to requests, for metrics, the log and the health.
class RequestEvents final : public ApiObserver {
 public:
  explicit RequestEvents(DoorParts& parts) : parts_(parts) {}

  void on_started(const ApiRequest& request) override {
    parts_.metrics.on_started(request);
    if (parts_.metrics.open().size() == 1) parts_.health.note_work(DoorParts::now());
  }
  void on_first_token(const ApiRequest& request, Duration waited) override {
    parts_.metrics.on_first_token(request, waited);
    parts_.request_log.on_first_token(request, waited);
  }
  void on_tokens(const ApiRequest& request, size_t count, Duration gap) override {
    parts_.health.note_progress(DoorParts::now());
    parts_.metrics.on_tokens(request, count, gap);
  }
  void on_ended(const ApiRequest& request, const ApiEnd& end) override {
    parts_.metrics.on_ended(request, end);
    parts_.request_log.on_ended(request, end);
  }
  void on_answered(const ApiRequest& request, int status) override {
    parts_.metrics.on_answered(request, status);
    parts_.request_log.on_answered(request, status);
  }

 private:
  DoorParts& parts_;
};

class Running final : public Door {
 public:
  Running(DoorOptions options, process::EnvironmentMap environment, const Log& log, RequestLog::Sink request_line)
      : parts_(std::move(options), log, std::move(request_line)), environment_(std::move(environment)) {}

  Result<void> listen() {
    LOCKSTEP_TRY(parts_.keys, keys_of(parts_.options));
    HttpOptions http = http_options(parts_.options, parts_.log);
    http.on_refused = [this](const HttpRefused& refused) { parts_.request_log.refused(refused); };
    http.refuse_head = [this](const HttpRequest& head) { return routes_.refuse_head(head); };
    LOCKSTEP_TRY(parts_.server, HttpServer::open(*parts_.loop, std::move(http),
                                                 [this](const auto& exchange) { routes_.handle(exchange); }));
    return ok();
  }

  std::string address() const override { return parts_.server->address(); }

  Result<void> run() override {
    LOCKSTEP_TRY_VOID(replicas_.start());
    parts_.loop->run();
    parts_.endpoint.reset();
    parts_.engine.close();  // its last answers are the server's
    parts_.api.reset();
    parts_.server.reset();
    replicas_.close();
    return shutdown_.result();
  }

  void interrupt() override {
    parts_.loop->post([this] { shutdown_.on_signal(); });
  }

 private:
  /// All replicas serve, for the first time. Requests are taken once the state of their ranks is known.
  void on_ready() {
    const Result<void> made = make_api();
    if (!made.has_value()) return shutdown_.end_after_flush(made.error());
    const size_t replicas = parts_.engine.attached();
    for (size_t replica = 0; replica < replicas; ++replica) unknown_.insert(replica);
    for (size_t replica = 0; replica < replicas; ++replica) watch(replica);
  }

  void watch(size_t replica) {
    watch_.begin(replica, [this, replica] { note_known(replica); });
  }

  void note_known(size_t replica) {
    if (unknown_.erase(replica) == 0 || !unknown_.empty()) return;
    const Result<void> opened = open_admission();
    if (!opened.has_value()) shutdown_.end_after_flush(opened.error());
  }

  /// Open requests have been sent to other ranks.
  void on_serving(size_t replica) {
    const auto lost = lost_at_.find(replica);
    const std::string pause =
        lost == lost_at_.end() ? "" : fmt::format(" after {:.2f} s", to_seconds(DoorParts::now() - lost->second));
    if (lost != lost_at_.end()) lost_at_.erase(lost);
    parts_.log.info("serves again{} with {}: {} open requests go on", pause, ranks(), parts_.api->open_requests());
    parts_.losses.erase(replica);
    if (unknown_.empty()) parts_.health.note_ready();
    parts_.health.note_work(DoorParts::now());
    watch(replica);
  }

  void on_lost(size_t replica, const Error& error, bool again) {
    lost_at_.try_emplace(replica, DoorParts::now());
    watch_.pause(replica);
    if (!again) return shutdown_.on_lost(error);
    if (parts_.engine.attached() == 0) parts_.health.note_recovering();
    parts_.note_loss(error, replica);
    parts_.log.error("{}", error.message);
  }

  /// "2 ranks", "4 replicas of 2 ranks".
  std::string ranks() const {
    const int ranks = parts_.engine.facts().ranks;
    const size_t replicas = parts_.engine.attached();
    const std::string each = fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s");
    return replicas == 1 ? each : fmt::format("{} replicas of {}", replicas, each);
  }

  Result<void> make_api() {
    const DoorOptions& options = parts_.options;
    const EngineFacts& facts = parts_.engine.facts();
    const auto unix_time = std::chrono::system_clock::now().time_since_epoch();
    LOCKSTEP_TRY(parts_.api, Api::make({.model = model_id(options),
                                        .model_directory = options.model,
                                        .created = std::chrono::duration_cast<std::chrono::seconds>(unix_time).count(),
                                        .max_open = static_cast<size_t>(facts.slots + options.max_queue)},
                                       parts_.engine, *parts_.loop, events_));
    return ok();
  }

  /// The state of the ranks is known: from now on requests are taken.
  Result<void> open_admission() {
    const EngineFacts& facts = parts_.engine.facts();
    LOCKSTEP_TRY_VOID(write_endpoint());
    parts_.health.note_ready();
    parts_.log.info("serves {} at {}: {}, {} slots of {} tokens, {} {}", model_id(parts_.options), address(), ranks(),
                    facts.slots, facts.capacity, facts.backend, facts.dtype);
    return ok();
  }

  Result<void> write_endpoint() {
    const DoorOptions& options = parts_.options;
    if (options.endpoint_file.empty()) return ok();
    const auto variable = [this](const char* name) {
      const auto at = environment_.find(name);
      return at == environment_.end() ? std::string() : at->second;
    };
    const Endpoint endpoint{
        .url = address(),
        .host = host_name(),
        .user = own_user(),
        .port = parts_.server->port(),
        .model = model_id(options),
        .api_key_file = parts_.keys.are_needed() ? std::filesystem::absolute(options.api_key_file).string() : "",
        .job = job_id(variable)};
    LOCKSTEP_TRY(parts_.endpoint, EndpointFile::write(options.endpoint_file, endpoint));
    return ok();
  }

  DoorParts parts_;
  const process::EnvironmentMap environment_;
  RequestEvents events_{parts_};
  Shutdown shutdown_{parts_, [this] { replicas_.finish(); }};
  Replicas replicas_{
      {parts_.options.replicas, environment_, *parts_.loop, parts_.engine, parts_.log},
      {.on_ready = [this] { on_ready(); },
       .on_serving = [this](size_t replica) { on_serving(replica); },
       .on_lost = [this](size_t replica, const Error& error, bool again) { on_lost(replica, error, again); },
       .on_over = [this](const Error& error) { shutdown_.end_after_flush(error); },
       .on_finished = [this](const Result<void>& result) { shutdown_.on_finished(result); }}};
  EngineWatch watch_{
      parts_,
      {.on_status = [this](size_t replica,
                           const EngineStatus& status) { replicas_.note_presence(replica, status.presence); },
       .on_silent = [this](size_t replica) { replicas_.note_silent(replica); }}};
  std::set<size_t> unknown_;             // replicas whose first status has to come before requests are taken
  std::map<size_t, TimePoint> lost_at_;  // of replicas that have no engine yet
  Routes routes_{
      parts_,
      watch_,
      {.change_ranks = [this](std::optional<int> ranks,
                              Replica::OnChanged done) { return replicas_.change_ranks(ranks, std::move(done)); },
       .state = [this] { return replicas_.state(); }}};
};

}  // namespace

std::string model_id(const DoorOptions& options) {
  if (!options.served_name.empty()) return options.served_name;
  return std::filesystem::path(options.model).filename().string();
}

Result<std::unique_ptr<Door>> Door::open(DoorOptions options, process::EnvironmentMap environment, const Log& log,
                                         std::function<void(std::string_view)> request_line) {
  auto door = std::make_unique<Running>(std::move(options), std::move(environment), log, std::move(request_line));
  LOCKSTEP_TRY_VOID(door->listen());
  return std::unique_ptr<Door>(std::move(door));
}

}  // namespace lockstep::serve
