#include "launcher/serve/door/door.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "launcher/serve/api/api.h"
#include "launcher/serve/api/errors.h"
#include "launcher/serve/door/api_keys.h"
#include "launcher/serve/door/endpoint_file.h"
#include "launcher/serve/door/engine_process.h"
#include "launcher/serve/door/health.h"
#include "launcher/serve/door/metrics.h"
#include "launcher/serve/door/request_log.h"
#include "launcher/serve/door/status_json.h"
#include "launcher/serve/engine/rpc_engine.h"
#include "launcher/serve/http/server.h"
#include "launcher/serve/page/page.h"
#include "runtime/core/atomic_file.h"

namespace lockstep::serve {
namespace {

using Exchanged = std::shared_ptr<Exchange>;

constexpr auto kLook = std::chrono::milliseconds(500);  // between two looks at the engine's steps, while it works
constexpr auto kDrainLook = std::chrono::milliseconds(50);
constexpr auto kFlush = std::chrono::milliseconds(500);  // for clients to read the last error
constexpr auto kEngineEnd = std::chrono::seconds(20);    // of an engine that was asked to end

constexpr auto kIdleLook = std::chrono::seconds(2);  // the same while it is idle
constexpr auto kAnswer = std::chrono::seconds(1);    // of an engine, before an answer goes without it

/// A call that happens once.
struct Once {
  std::function<void()> call;
  std::unique_ptr<Timer> timer;  // after which it happens anyway

  void run() {
    if (call) std::exchange(call, nullptr)();
  }
};

Duration seconds(double s) { return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s)); }

bool needs_key(std::string_view path) {
  return !(path == "/" || path == "/metrics" || path == "/health" || path.starts_with("/health/"));
}

/// The id that clients use: the option, or the directory's name.
std::string model_id(const DoorOptions& options) {
  if (!options.served_name.empty()) return options.served_name;
  return std::filesystem::path(options.model).filename().string();
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

class Running final : public Door, public ApiObserver {
 public:
  Running(DoorOptions options, process::EnvironmentMap environment, const Log& log, RequestLog::Sink request_line)
      : options_(std::move(options)),
        environment_(std::move(environment)),
        log_(log),
        loop_(make_loop(&log)),
        health_(seconds(options_.silence_s)),
        request_log_(log_format(options_.log_format), std::move(request_line)) {}

  Result<void> listen() {
    if (!options_.api_key_file.empty()) {
      LOCKSTEP_TRY(const std::string text, read_text_file(options_.api_key_file, "--api-key-file"));
      LOCKSTEP_TRY(keys_, ApiKeys::parse(text, "--api-key-file"));
    }
    HttpOptions http{.host = options_.host,
                     .port = static_cast<uint16_t>(options_.port),
                     .unix_socket = options_.unix_socket,
                     .tls_certificate = options_.tls_certificate,
                     .tls_key = options_.tls_key,
                     .cors_origin = options_.cors_origin,
                     .log = &log_};
    http.limits.connections = static_cast<size_t>(options_.max_connections);
    http.limits.body_bytes = static_cast<size_t>(options_.max_body_mib * 1024 * 1024);
    LOCKSTEP_TRY(server_, HttpServer::open(*loop_, http, [this](Exchanged exchange) { handle(exchange); }));
    return ok();
  }

  std::string address() const override { return server_->address(); }

  Result<void> run() override {
    LOCKSTEP_TRY_VOID(start_engine());
    loop_->run();
    endpoint_.reset();
    api_.reset();
    engine_.reset();
    connection_.reset();
    server_.reset();
    process_.reset();
    return result_;
  }

  void interrupt() override {
    loop_->post([this] { on_interrupt(); });
  }

  // The observer of the API.
  void on_started(const ApiRequest& request) override {
    metrics_.on_started(request);
    if (metrics_.open().size() == 1) health_.note_work(now());
  }
  void on_first_token(const ApiRequest& request, Duration waited) override {
    metrics_.on_first_token(request, waited);
    request_log_.on_first_token(request, waited);
  }
  void on_tokens(const ApiRequest& request, size_t count, Duration gap) override {
    health_.note_progress(now());
    metrics_.on_tokens(request, count, gap);
  }
  void on_ended(const ApiRequest& request, const ApiEnd& end) override {
    metrics_.on_ended(request, end);
    request_log_.on_ended(request, end);
  }
  void on_answered(std::string_view endpoint, int status) override {
    metrics_.on_answered(endpoint, status);
    request_log_.on_answered(endpoint, status);
  }

 private:
  static TimePoint now() { return std::chrono::steady_clock::now(); }
  bool is_working() const { return api_ != nullptr && api_->open_sequences() > 0; }

  Result<void> start_engine() {
    EngineAddress address{.socket = options_.engine_socket,
                          .host = options_.engine_host,
                          .port = static_cast<uint16_t>(options_.engine_port)};
    if (!options_.secret_file.empty()) {
      LOCKSTEP_TRY(address.secret, read_text_file(options_.secret_file, "--secret-file"));
      while (address.secret.ends_with('\n')) address.secret.pop_back();
    }
    if (!options_.engine.empty()) {
      LOCKSTEP_TRY(process_, EngineProcess::start(options_.engine, environment_, *loop_,
                                                  [this](const Result<void>& result) { on_engine_end(result); }));
      address.socket = process_->socket();
    }
    connection_ = connect(*loop_, {.address = address,
                                   .limit = seconds(options_.start_deadline_s),
                                   .done = [this](Result<std::unique_ptr<Engine>> engine) { on_connected(engine); },
                                   .on_lost = [this](const Error& error) { on_lost(error); }});
    return ok();
  }

  void on_connected(Result<std::unique_ptr<Engine>>& engine) {
    if (!engine.has_value()) return end_after_flush(engine.error());
    engine_ = std::move(engine.value());
    const EngineFacts& facts = engine_->facts();
    Result<std::unique_ptr<Api>> api = Api::make({.model = model_id(options_),
                                                  .model_directory = options_.model,
                                                  .created = std::chrono::duration_cast<std::chrono::seconds>(
                                                                 std::chrono::system_clock::now().time_since_epoch())
                                                                 .count(),
                                                  .max_open = static_cast<size_t>(facts.slots + options_.max_queue)},
                                                 *engine_, *loop_, *this);
    if (!api.has_value()) return end_after_flush(api.error());
    api_ = std::move(api.value());
    look();
    const Result<void> written = write_endpoint();
    if (!written.has_value()) return end_after_flush(written.error());
    health_.note_ready();
    log_.info("serves {} at {}: {} rank{}, {} slots of {} tokens, {} {}", model_id(options_), address(), facts.ranks,
              facts.ranks == 1 ? "" : "s", facts.slots, facts.capacity, facts.backend, facts.dtype);
  }

  Result<void> write_endpoint() {
    if (options_.endpoint_file.empty()) return ok();
    const auto variable = [this](const char* name) {
      const auto at = environment_.find(name);
      return at == environment_.end() ? std::string() : at->second;
    };
    const Endpoint endpoint{
        .url = address(),
        .host = host_name(),
        .user = own_user(),
        .port = server_->port(),
        .model = model_id(options_),
        .api_key_file = keys_.are_needed() ? std::filesystem::absolute(options_.api_key_file).string() : "",
        .job = job_id(variable)};
    LOCKSTEP_TRY(endpoint_, EndpointFile::write(options_.endpoint_file, endpoint));
    return ok();
  }

  // Requests.

  void handle(const Exchanged& exchange) {
    const HttpRequest& request = exchange->request();
    if (needs_key(request.path) && !keys_.allow(request)) return refuse_key(exchange);
    if (request.path == "/health/live") return answer_health(exchange, health_.state() != DoorState::kLost);
    if (request.path == "/health" || request.path == "/health/ready") {
      return answer_health(exchange, health_.is_healthy(now(), is_working()));
    }
    if (request.path == "/metrics") return answer_metrics(exchange);
    if (request.path == "/admin/status") return answer_status(exchange);
    if (request.path == "/") return answer_page(exchange);
    if (health_.state() != DoorState::kReady) return refuse_now(exchange);
    if (api_->handle(exchange)) return;
    exchange->respond(api_error(
        404, "invalid_request_error", "not_found", "",
        fmt::format("found the path {}, expected one of this server; docs/serving.md lists them", request.path)));
    note_answer(request, 404);
  }

  /// An answer of the server's own. Unknown paths share one time series.
  void note_answer(const HttpRequest& request, int status) {
    metrics_.on_answered("other", status);
    request_log_.answered({.id = request.id, .client = request.peer, .endpoint = request.path, .status = status});
  }

  /// Answers any method except GET (and HEAD, which the server cuts) with 405.
  static bool is_get(const Exchanged& exchange) {
    const std::string& method = exchange->request().method;
    if (method == "GET" || method == "HEAD") return true;
    HttpResponse response = api_error(405, "invalid_request_error", "method_not_allowed", "",
                                      fmt::format("found the method {}, expected GET", method));
    response.headers.emplace_back("Allow", "GET, HEAD");
    exchange->respond(std::move(response));
    return false;
  }

  void refuse_key(const Exchanged& exchange) {
    HttpResponse response =
        api_error(401, "invalid_request_error", "invalid_api_key", "",
                  "found no valid key, expected one of the server's in the header Authorization: Bearer KEY");
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
    exchange->respond(std::move(response));
    note_answer(exchange->request(), 401);
  }

  void refuse_now(const Exchanged& exchange) {
    ApiError error{.status = 503,
                   .type = "server_error",
                   .code = std::string(to_string(health_.state())),
                   .message = fmt::format("found a server that is {}, expected one that is ready; GET /health is 200 "
                                          "when it is",
                                          health_.word(now(), is_working()))};
    if (health_.state() == DoorState::kStarting) error.retry_after_s = 2;
    exchange->respond(api_error(error));
    note_answer(exchange->request(), 503);
  }

  void answer_health(const Exchanged& exchange, bool is_good) {
    if (!is_get(exchange)) return;
    nlohmann::ordered_json body{{"state", health_.word(now(), is_working())},
                                {"ranks", status_.ranks},
                                {"step", status_.steps},
                                {"last_token_age_s", nullptr},
                                {"open_requests", api_ == nullptr ? 0 : api_->open_requests()},
                                {"running", status_.running},
                                {"queue", status_.queued}};
    if (const auto age = health_.since_progress(now())) {
      body["last_token_age_s"] = std::chrono::duration<double>(*age).count();
    }
    exchange->respond({.status = is_good ? 200 : 503, .body = body.dump() + "\n"});
  }

  void answer_metrics(const Exchanged& exchange) {
    if (!is_get(exchange)) return;
    const auto answer = [this, exchange] {
      const bool healthy = health_.is_healthy(now(), is_working());
      exchange->respond({.content_type = "text/plain; version=0.0.4; charset=utf-8",
                         .body = metrics_.text({.is_healthy = healthy,
                                                .status = status_,
                                                .facts = engine_ == nullptr ? EngineFacts{} : engine_->facts(),
                                                .http = server_->counters()})});
    };
    if (engine_ == nullptr) return answer();
    engine_->status([this, once = within_limit(answer)](const Result<EngineStatus>& status) {
      take_status(status);
      once->run();
    });
  }

  void answer_status(const Exchanged& exchange) {
    if (!is_get(exchange)) return;
    const auto activity = std::make_shared<EngineActivity>();
    const auto answer = [this, exchange, activity] {
      exchange->respond({.body = status_json({.state = health_.word(now(), is_working()),
                                              .model = model_id(options_),
                                              .engine = engine_ == nullptr ? EngineFacts{} : engine_->facts(),
                                              .uptime = now() - began_,
                                              .tokens_per_s = rate(),
                                              .now = now()},
                                             status_, *activity, metrics_)});
    };
    if (engine_ == nullptr || health_.state() == DoorState::kLost) return answer();
    engine_->status([this](const Result<EngineStatus>& status) { take_status(status); });  // arrives first
    engine_->activity([activity, once = within_limit(answer)](const Result<EngineActivity>& got) {
      if (got.has_value()) *activity = got.value();
      once->run();
    });
  }

  void answer_page(const Exchanged& exchange) {
    if (!is_get(exchange)) return;
    exchange->respond(page_response());
  }

  /// Tokens per second since the last time it was asked for, at least half a second ago.
  double rate() {
    const Duration passed = now() - sampled_;
    if (passed >= kLook) {
      rate_ =
          static_cast<double>(metrics_.new_tokens() - sampled_tokens_) / std::chrono::duration<double>(passed).count();
      sampled_ = now();
      sampled_tokens_ = metrics_.new_tokens();
    }
    return rate_;
  }

  // The engine's progress.

  void take_status(const Result<EngineStatus>& status) {
    if (!status.has_value()) return;
    if (status.value().step_age_s) health_.note_progress(now() - seconds(*status.value().step_age_s));
    status_ = status.value();
  }

  /// Asks for the engine's status, seldom while it is idle. An engine that gives no answer is lost.
  void look() {
    const bool is_silent = asked_ && options_.silence_s > 0 && now() - *asked_ > seconds(options_.silence_s);
    if (is_silent) return on_silent();
    if (!asked_) {
      asked_ = now();
      engine_->status([this](const Result<EngineStatus>& status) {
        asked_.reset();
        take_status(status);
      });
    }
    looking_ = loop_->after(is_working() ? kLook : kIdleLook, [this] { look(); });
  }

  /// Calls `answer` once: when it is called itself, or after a second. For answers that an engine in trouble must not
  /// hold up.
  std::shared_ptr<Once> within_limit(std::function<void()> answer) {
    const auto once = std::make_shared<Once>(Once{std::move(answer), nullptr});
    once->timer = loop_->after(kAnswer, [weak = std::weak_ptr<Once>(once)] {
      if (const auto own = weak.lock()) own->run();
    });
    return once;
  }

  // The end.

  void on_interrupt() {
    if (interrupts_ == 0 && health_.state() == DoorState::kLost) return void(++interrupts_);  // it is ending
    if (++interrupts_ > 1 || health_.state() == DoorState::kStarting) {
      return end(Error{ErrorKind::kCancelled, "[serve] interrupted: open requests were cut"});
    }
    log_.info("drains: no new requests, open ones have {:.0f} s", options_.drain_s);
    health_.note_draining();
    drained_by_ = now() + seconds(options_.drain_s);
    look_whether_drained();
  }

  void look_whether_drained() {
    if (server_->open_exchanges() == 0 && api_->open_requests() == 0) return finish_engine();
    if (now() >= drained_by_) {
      return end(
          Error{ErrorKind::kCancelled,
                fmt::format("[serve] drained for {:.0f} s: found {} requests that have not ended, expected none; "
                            "they were cut, --drain-s gives them more time",
                            options_.drain_s, api_->open_requests())});
    }
    draining_ = loop_->after(kDrainLook, [this] { look_whether_drained(); });
  }

  /// Every request has its answer: the engine may end, unless it was there before.
  void finish_engine() {
    server_->stop_accepting();
    if (process_ == nullptr) return end(ok());
    is_finishing_ = true;
    engine_->finish();
    draining_ = loop_->after(kEngineEnd, [this] { end(ok()); });
  }

  void on_lost(const Error& error) {
    if (is_finishing_ || is_silent_) return;
    health_.note_lost();
    log_.error("{}", error.message);
    if (process_ == nullptr) end_after_flush(error);
    // Otherwise the end of the process says more.
    else if (draining_ == nullptr)
      draining_ = loop_->after(kEngineEnd, [this, error] { end(error); });
  }

  /// The engine is frozen: it is killed, so that its clients get an error.
  void on_silent() {
    is_silent_ = true;
    health_.note_lost();
    const Error error{
        ErrorKind::kPeerLost,
        fmt::format("[serve] lost the engine: found no answer for {:.0f} s, expected one at once; rank 0 is "
                    "frozen, or its machine is",
                    options_.silence_s)};
    log_.error("{}", error.message);
    process_.reset();
    end_after_flush(error);
  }

  void on_engine_end(const Result<void>& result) {
    if (is_silent_) return;
    if (is_finishing_) return end(result);
    health_.note_lost();
    end_after_flush(result.has_value() ? Error{ErrorKind::kPeerLost,
                                               "[serve] the engine has ended: found exit code 0, expected it to serve; "
                                               "it was asked to end by another client"}
                                       : result.error());
  }

  void end_after_flush(const Error& error) {
    health_.note_lost();
    ending_ = loop_->after(kFlush, [this, error] { end(error); });
  }

  void end(Result<void> result) {
    result_ = std::move(result);
    loop_->stop();
  }

  const DoorOptions options_;
  const process::EnvironmentMap environment_;
  const Log& log_;
  std::unique_ptr<RunningLoop> loop_;
  ApiKeys keys_;
  Health health_;
  Metrics metrics_;
  RequestLog request_log_;
  EngineStatus status_;  // the last one
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<EngineProcess> process_;  // null: the engine is not this server's
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<Engine> engine_;  // null: not connected yet
  std::unique_ptr<Api> api_;
  std::unique_ptr<EndpointFile> endpoint_;
  std::unique_ptr<Timer> looking_, draining_, ending_;
  const TimePoint began_ = now();
  TimePoint sampled_ = began_, drained_by_{};
  uint64_t sampled_tokens_ = 0;
  double rate_ = 0.0;
  int interrupts_ = 0;
  bool is_finishing_ = false, is_silent_ = false;
  std::optional<TimePoint> asked_;  // for a status that the engine has not given yet
  Result<void> result_ = ok();
};

}  // namespace

Result<std::unique_ptr<Door>> Door::open(DoorOptions options, process::EnvironmentMap environment, const Log& log,
                                         std::function<void(std::string_view)> request_line) {
  auto door = std::make_unique<Running>(std::move(options), std::move(environment), log, std::move(request_line));
  LOCKSTEP_TRY_VOID(door->listen());
  return std::unique_ptr<Door>(std::move(door));
}

}  // namespace lockstep::serve
