#include "launcher/serve/api/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <list>
#include <nlohmann/json.hpp>
#include <random>

#include "launcher/serve/api/chat.h"
#include "launcher/serve/api/completions.h"
#include "launcher/serve/api/content_type.h"
#include "launcher/serve/api/messages.h"
#include "launcher/serve/api/reading.h"
#include "launcher/serve/api/responses.h"
#include "launcher/serve/api/runner.h"
#include "launcher/serve/api/text_endpoints.h"

namespace lockstep::serve {
namespace {

constexpr std::string_view kModels = "/v1/models";

/// A path with a body. Adding a protocol adds a row.
struct Route {
  std::string_view path;
  std::unique_ptr<Protocol> (*make)();
};
constexpr Route kRoutes[] = {
    {"/v1/completions", make_completions},
    {"/v1/chat/completions", make_chat},
    {"/v1/responses", make_responses},
    {"/v1/messages", make_messages},
    {"/v1/messages/count_tokens", make_count_tokens},
    {"/tokenize", make_tokenize},
    {"/detokenize", make_detokenize},
};

HttpResponse wrong_method(const HttpRequest& request, std::string_view allowed) {
  HttpResponse response = api_error(405, "invalid_request_error", "method_not_allowed", "",
                                    fmt::format("found {} {}, expected {}", request.method, request.path, allowed));
  response.headers.emplace_back("Allow", std::string(allowed));
  return response;
}

/// The client as fair queueing sees it: the host without the port.
std::string client_of(const HttpRequest& request) { return request.peer.substr(0, request.peer.rfind(':')); }

/// Long bodies take a second or more to read. They wait for each other, and short ones only for short ones.
constexpr size_t kLongBody = size_t{256} << 10;

ComputeLane lane_of(const HttpRequest& request) {
  return request.body.size() > kLongBody ? ComputeLane::kLong : ComputeLane::kShort;
}

/// A request whose client may leave at any time.
struct PendingRequest {
  PendingRequest(const std::string& body, ReadContext context) : reading(body, std::move(context)) {}

  Reading reading;
  std::weak_ptr<Run> run;  // once it runs
};

class ModelApi final : public Api {
 public:
  ModelApi(ApiOptions options, std::unique_ptr<const ModelText> text, Engine& engine, EventLoop& loop,
           ApiObserver& observer)
      : options_(std::move(options)), text_(std::move(text)), loop_(loop) {
    const Clock* clock = options_.clock != nullptr ? options_.clock : &steady_;
    services_ = {&options_, clock, &engine, &loop, &observer};
    for (const Route& route : kRoutes) protocols_.emplace_back(route.path, route.make());
  }

  bool handle(const std::shared_ptr<Exchange>& exchange) override {
    const std::string& path = exchange->request().path;
    for (const auto& [route, protocol] : protocols_) {
      if (route != path) continue;
      handle_body(*protocol, route, exchange);
      return true;
    }
    return handle_get(exchange);
  }

  size_t open_requests() const override { return runs_.size() + reading_; }
  size_t open_sequences() const override { return open_sequences_; }

 private:
  bool handle_get(const std::shared_ptr<Exchange>& exchange) {
    const HttpRequest& request = exchange->request();
    std::string_view path = request.path;
    const bool is_info = path == "/tokenizer_info";
    const bool is_list = path == kModels;
    const bool is_model = path.starts_with(kModels) && path.size() > kModels.size() + 1 && path[kModels.size()] == '/';
    if (!is_info && !is_list && !is_model) return false;
    const std::string_view endpoint = is_info ? "/tokenizer_info" : kModels;
    if (request.method != "GET" && request.method != "HEAD") {
      answer(*exchange, endpoint, wrong_method(request, "GET, HEAD"));
    } else if (is_info) {
      answer(*exchange, endpoint, tokenizer_info(context_of(request)));
    } else {
      std::optional<std::string_view> id;
      if (is_model) id = path.substr(kModels.size() + 1);
      answer(*exchange, endpoint, models(context_of(request), options_.created, id));
    }
    return true;
  }

  void handle_body(const Protocol& protocol, std::string_view endpoint, const std::shared_ptr<Exchange>& exchange) {
    const HttpRequest& request = exchange->request();
    if (request.method != "POST") return answer(*exchange, endpoint, wrong_method(request, "POST"));
    if (!is_json(request)) return answer(*exchange, endpoint, protocol.refuse(wrong_type(request)));
    // Shared with the computing thread.
    const auto pending = std::make_shared<PendingRequest>(request.body, context_of(request));
    exchange->on_disconnect([pending] {
      pending->reading.abandon();
      if (const auto run = pending->run.lock()) run->abandon();
    });
    ++reading_;
    const TimePoint arrived = services_.clock->now();
    const auto alive = std::weak_ptr<int>(alive_);
    loop_.compute(
        lane_of(request), [pending, &protocol] { pending->reading.read(protocol); },
        [this, alive, pending, &protocol, endpoint, exchange, arrived] {
          if (alive.expired()) return;
          --reading_;
          if (!pending->reading.is_abandoned()) return take(protocol, endpoint, exchange, *pending, arrived);
          note_answer(exchange->request(), endpoint, kClientClosedRequest);
        });
  }

  void take(const Protocol& protocol, std::string_view endpoint, const std::shared_ptr<Exchange>& exchange,
            PendingRequest& pending, TimePoint arrived) {
    auto& read = pending.reading.outcome();
    if (!read) {
      return answer(*exchange, endpoint,
                    protocol.refuse({.status = 500,
                                     .type = "server_error",
                                     .code = "internal_error",
                                     .message = "the server failed to read the request; its log has the reason"}));
    }
    if (!read->has_value()) return answer(*exchange, endpoint, protocol.refuse(read->error()));
    Protocol::Outcome& outcome = read->value();
    if (auto* response = std::get_if<HttpResponse>(&outcome)) return answer(*exchange, endpoint, std::move(*response));
    auto& request = std::get<ReadRequest>(outcome);
    const HttpRequest& http = exchange->request();
    request.generation.client = client_of(http);
    ApiRequest facts{.number = ++requests_, .id = http.id, .endpoint = endpoint, .peer = http.peer};
    const auto place = runs_.emplace(runs_.end());
    const auto run = make_run(services_, protocol, exchange, std::move(request), std::move(facts), arrived,
                              [this, alive = std::weak_ptr<int>(alive_), place] {
                                if (!alive.expired()) end(place);
                              });
    if (open_sequences_ > 0 && open_sequences_ + run->sequences() > options_.max_open) {
      runs_.erase(place);
      return answer(*exchange, endpoint, protocol.refuse(too_many()));
    }
    *place = run;
    open_sequences_ += run->sequences();
    pending.run = run;
    run->start();
  }

  void end(std::list<std::shared_ptr<Run>>::iterator place) {
    open_sequences_ -= (*place)->sequences();
    runs_.erase(place);
  }

  ApiError too_many() const {
    return {.status = 429,
            .type = "rate_limit_error",
            .code = "queue_full",
            .message = fmt::format("the queue is full: found {} open sequences, expected at most {}; retry later",
                                   open_sequences_, options_.max_open),
            .retry_after_s = 1};
  }

  void answer(Exchange& exchange, std::string_view endpoint, HttpResponse response) {
    note_answer(exchange.request(), endpoint, response.status);
    exchange.respond(std::move(response));
  }

  void note_answer(const HttpRequest& request, std::string_view endpoint, int status) {
    services_.observer->on_answered({.id = request.id, .endpoint = endpoint, .peer = request.peer}, status);
  }

  ReadContext context_of(const HttpRequest& request) const {
    const EngineFacts& facts = services_.engine->facts();
    return {.model = options_.model,
            .request_id = request.id,
            .created = options_.unix_time ? options_.unix_time() : static_cast<int64_t>(std::time(nullptr)),
            .capacity = facts.capacity,
            .vocabulary = facts.vocabulary,
            .fresh_seed = options_.random ? options_.random() : fresh_seed(),
            .most_choices = options_.most_choices,
            .text = text_.get()};
  }

  static uint64_t fresh_seed() {
    std::random_device device;
    return (static_cast<uint64_t>(device()) << 32 | device()) >> 1;  // a JSON number of 63 bits
  }

  const SteadyClock steady_;
  const ApiOptions options_;
  const std::unique_ptr<const ModelText> text_;
  EventLoop& loop_;
  RunServices services_{};
  std::vector<std::pair<std::string_view, std::unique_ptr<Protocol>>> protocols_;
  std::list<std::shared_ptr<Run>> runs_;  // shared with their own callbacks
  size_t reading_ = 0;
  size_t open_sequences_ = 0;
  uint64_t requests_ = 0;
  const std::shared_ptr<int> alive_ = std::make_shared<int>();  // callbacks after the end see that it is gone
};

}  // namespace

Result<std::unique_ptr<Api>> Api::make(ApiOptions options, Engine& engine, EventLoop& loop, ApiObserver& observer) {
  LOCKSTEP_TRY(auto text, ModelText::load(options.model_directory));
  return std::make_unique<ModelApi>(std::move(options), std::move(text), engine, loop, observer);
}

}  // namespace lockstep::serve
