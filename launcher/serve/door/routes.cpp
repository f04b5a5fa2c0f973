#include "launcher/serve/door/routes.h"

#include <fmt/format.h>

#include <utility>

#include "launcher/serve/api/body_field.h"
#include "launcher/serve/api/content_type.h"
#include "launcher/serve/api/errors.h"
#include "launcher/serve/door/health_json.h"
#include "launcher/serve/door/status_json.h"
#include "launcher/serve/page/page.h"

namespace lockstep::serve {

namespace {

constexpr int kMostRanks = 4096;

struct ChangeRequest {
  std::optional<int> ranks = {};  // none: new ones, as many as serve
  bool wait = false;              // for the end of the change
};

ApiResult<ChangeRequest> read_change(std::string_view body, bool has_number) {
  LOCKSTEP_TRY(const auto document, parse_body(body));
  const BodyField field(*document);
  LOCKSTEP_TRY(const bool wait, field.flag_or("wait", false));
  if (!has_number) return ChangeRequest{.wait = wait};
  LOCKSTEP_TRY(const auto ranks, field.whole_within("tp", 1, kMostRanks));
  if (ranks) return ChangeRequest{static_cast<int>(*ranks), wait};
  return ApiError{.param = "tp", .message = "tp: found none, expected the number of ranks"};
}

ApiError cannot_change(std::string message) {
  return {.status = 409, .code = "cannot_change", .message = std::move(message)};
}

}  // namespace

/// A path of the server itself; all of them are read only.
struct Routes::OwnPath {
  std::string_view path;
  void (Routes::*answer)(const Exchanged& exchange);
};

const Routes::OwnPath Routes::kOwnPaths[] = {
    {"/health", &Routes::answer_ready},        {"/health/ready", &Routes::answer_ready},
    {"/health/live", &Routes::answer_live},    {"/metrics", &Routes::answer_metrics},
    {"/admin/status", &Routes::answer_status}, {"/", &Routes::answer_page},
};

bool is_public(std::string_view path) {
  return path == "/" || path == "/metrics" || path == "/health" || path.starts_with("/health/");
}

void Routes::handle(const Exchanged& exchange) {
  const HttpRequest& request = exchange->request();
  for (const OwnPath& own : kOwnPaths) {
    if (own.path != request.path) continue;
    const bool reads = request.method == "GET" || request.method == "HEAD";  // the server cuts a body off a HEAD
    return reads ? (this->*own.answer)(exchange) : refuse_method(exchange, "GET, HEAD");
  }
  if (request.path == "/admin/degree") return change_ranks(exchange, /*has_number=*/true);
  if (request.path == "/admin/restart") return change_ranks(exchange, /*has_number=*/false);
  if (!parts_.health.takes_requests()) return refuse_now(exchange);
  if (!parts_.api->handle(exchange)) refuse_path(exchange);
}

void Routes::answer(const Exchanged& exchange, HttpResponse response) {
  note_answer(exchange->request(), response.status);
  exchange->respond(std::move(response));
}

void Routes::note_answer(const HttpRequest& request, int status) {
  parts_.metrics.on_answered({.endpoint = "other"}, status);
  parts_.request_log.on_answered({.id = request.id, .endpoint = request.path, .peer = request.peer}, status);
}

std::optional<HttpResponse> Routes::refuse_head(const HttpRequest& head) {
  const bool needs_key = !is_public(head.path) || head.announces_body();
  if (!needs_key || parts_.keys.allow(head)) return std::nullopt;
  HttpResponse response =
      api_error(401, "invalid_request_error", "invalid_api_key", "",
                "found no valid key, expected one of the server's in the header Authorization: Bearer KEY");
  response.headers.emplace_back("WWW-Authenticate", "Bearer");
  note_answer(head, response.status);
  return response;
}

void Routes::refuse_method(const Exchanged& exchange, std::string_view expected) {
  HttpResponse response =
      api_error(405, "invalid_request_error", "method_not_allowed", "",
                fmt::format("found the method {}, expected {}", exchange->request().method, expected));
  response.headers.emplace_back("Allow", std::string(expected));
  answer(exchange, std::move(response));
}

void Routes::change_ranks(const Exchanged& exchange, bool has_number) {
  const HttpRequest& request = exchange->request();
  if (request.method != "POST") return refuse_method(exchange, "POST");
  if (!is_json(request)) return answer(exchange, api_error(wrong_type(request)));
  const ApiResult<ChangeRequest> asked = read_change(request.body, has_number);
  if (!asked.has_value()) return answer(exchange, api_error(asked.error()));
  const std::optional<int> ranks = asked.value().ranks;
  const int before = parts_.engine.facts().ranks;
  const auto body = [before](int now) { return fmt::format("{{\"tp\": {}, \"before\": {}}}\n", now, before); };
  const bool waits = asked.value().wait;
  const auto changes = replicas_.change_ranks(ranks, [=, this](const std::string& failure) {
    if (!waits) return;
    answer(exchange, failure.empty() ? HttpResponse{.body = body(ranks.value_or(parts_.engine.facts().ranks))}
                                     : api_error(cannot_change(failure)));
  });
  if (!changes.has_value()) return answer(exchange, api_error(cannot_change(changes.error().message)));
  if (!waits) answer(exchange, {.status = changes.value() ? 202 : 200, .body = body(ranks.value_or(before))});
}

void Routes::refuse_now(const Exchanged& exchange) {
  const DoorState state = parts_.health.state();
  ApiError error{.status = 503,
                 .type = "server_error",
                 .code = std::string(to_string(state)),
                 .message = fmt::format("found a server that is {}, expected one that is ready; GET /health is 200 "
                                        "when it is",
                                        parts_.state_word())};
  if (state == DoorState::kStarting) error.retry_after_s = 2;
  answer(exchange, api_error(error));
}

void Routes::refuse_path(const Exchanged& exchange) {
  answer(exchange, api_error(404, "invalid_request_error", "not_found", "",
                             fmt::format("found the path {}, expected one of this server; docs/serving.md lists them",
                                         exchange->request().path)));
}

void Routes::answer_live(const Exchanged& exchange) {
  answer_health(exchange, parts_.health.state() == DoorState::kLost ? 503 : 200);
}

void Routes::answer_ready(const Exchanged& exchange) {
  answer_health(exchange, parts_.health.is_healthy(DoorParts::now(), parts_.is_working()) ? 200 : 503);
}

void Routes::answer_health(const Exchanged& exchange, int status) {
  exchange->respond({.status = status,
                     .body = health_json({.state = parts_.state_word(),
                                          .progress = parts_.health.since_progress(DoorParts::now()),
                                          .open_requests = parts_.api == nullptr ? 0 : parts_.api->open_requests(),
                                          .loss = parts_.loss(),
                                          .replicas = replicas_.state().replicas},
                                         parts_.status())});
}

void Routes::answer_metrics(const Exchanged& exchange) {
  watch_.read([this, exchange](const EngineActivity& activity) {
    exchange->respond(
        {.content_type = "text/plain; version=0.0.4; charset=utf-8",
         .body = parts_.metrics.text({.is_healthy = parts_.health.is_healthy(DoorParts::now(), parts_.is_working()),
                                      .status = parts_.status(),
                                      .activity = activity,
                                      .restarts = replicas_.state().restarts,
                                      .http = parts_.server->counters()})});
  });
}

void Routes::answer_status(const Exchanged& exchange) {
  watch_.read([this, exchange](const EngineActivity& activity) {
    const TimePoint now = DoorParts::now();
    exchange->respond({.body = status_json({.state = parts_.state_word(),
                                            .model = model_id(parts_.options),
                                            .engine = parts_.engine.facts(),
                                            .uptime = now - began_,
                                            .replicas = replicas_.state(),
                                            .tokens_per_s = rate_.sample(parts_.metrics.new_tokens(), now),
                                            .now = now},
                                           parts_.status(), activity, parts_.metrics)});
  });
}

void Routes::answer_page(const Exchanged& exchange) { exchange->respond(page_response()); }

}  // namespace lockstep::serve
