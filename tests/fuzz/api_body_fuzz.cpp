// Fuzzes the bodies of requests: whatever they are, each gets an answer, which is complete, well-formed, and of the
// protocol of its path. The scripted engine answers what it is asked.
//
// Input: a byte that chooses the path, a byte that chooses how answers end, and the body.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/serve/api/api.h"
#include "runtime/core/check.h"
#include "tests/serve/api/fake_engine.h"
#include "tests/serve/api/fake_server.h"
#include "tests/temporary_directory.h"

using namespace lockstep;
using namespace lockstep::serve;

namespace {

constexpr std::array<const char*, 7> kPaths = {"/v1/completions", "/v1/chat/completions",      "/v1/responses",
                                               "/v1/messages",    "/v1/messages/count_tokens", "/tokenize",
                                               "/detokenize"};
constexpr std::array<const char*, 4> kReasons = {"eos", "length", "stop", "cancelled"};

class NoObserver final : public ApiObserver {
 public:
  void on_started(const ApiRequest&) override {}
  void on_first_token(const ApiRequest&, Duration) override {}
  void on_tokens(const ApiRequest&, size_t, Duration) override {}
  void on_ended(const ApiRequest&, const ApiEnd&) override {}
  void on_answered(const ApiRequest&, int) override {}
};

/// An API of the tiny model, made once.
struct Server {
  Server() {
    const TemporaryDirectory directory;  // it is read at once
    write_tiny_model(directory.path());
    api = Api::make({.model = "tiny",
                     .model_directory = directory.path(),
                     .most_choices = 64,
                     .unix_time = [] { return 1000; },
                     .random = [] { return uint64_t{99}; },
                     .clock = &clock},
                    engine, loop, observer)
              .value();
  }

  ManualClock clock;
  FakeLoop loop;
  FakeEngine engine;
  NoObserver observer;
  std::unique_ptr<Api> api;
};

bool has_text(const Document& json, const char* key) { return json.contains(key) && json[key].is_string(); }

/// OpenAI's form, or Anthropic's.
bool is_error(const Document& json, std::string_view path) {
  if (!json.is_object() || !json.contains("error") || !json["error"].is_object()) return false;
  const Document& error = json["error"];
  const bool says = has_text(error, "message") && has_text(error, "type") && !error["message"].empty();
  if (path.starts_with("/v1/messages")) return says && json.contains("type") && json["type"] == "error";
  return says && error.contains("param") && error.contains("code");
}

void check_whole(const HttpResponse& response, std::string_view path) {
  const Document json = Document::parse(response.body, nullptr, /*allow_exceptions=*/false);
  LOCKSTEP_CHECK(!json.is_discarded(), response.body);
  const bool is_good = response.status >= 200 && response.status < 300 && !json.contains("error");
  const bool is_refusal = response.status >= 400 && response.status < 500 && is_error(json, path);
  // A response of /v1/responses has a field "error", which is null.
  const bool is_response = response.status == 200 && json.contains("error") && json["error"].is_null();
  LOCKSTEP_CHECK(is_good || is_refusal || is_response, response.status, response.body);
}

void check_stream(const FakeExchange& exchange) {
  LOCKSTEP_CHECK(exchange.head->status == 200 && exchange.is_ended);
  const std::string& stream = exchange.stream;
  LOCKSTEP_CHECK(stream.ends_with("\n\n"), stream);
  for (size_t at = 0; at < stream.size();) {
    const size_t end = stream.find('\n', at);
    const std::string_view line = std::string_view(stream).substr(at, end - at);
    at = end + 1;
    if (!line.starts_with("data: ") || line == "data: [DONE]") continue;
    LOCKSTEP_CHECK(Document::accept(line.substr(6)), line);
  }
}

/// Lets the engine answer everything that it is asked, also what follows from that.
void answer_all(Server& server, uint8_t way) {
  for (size_t call = 0, score = 0; call < server.engine.calls.size() || score < server.engine.scores.size();) {
    if (score < server.engine.scores.size()) {
      server.engine.give_score(score++);
    } else {
      const auto asked = server.engine.calls[call++];
      asked->say("a<\xe2\x82\xac{\"x\": 1}");
      if (asked->is_open()) asked->finish(kReasons[way % kReasons.size()]);
    }
    server.loop.run();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  static Server server;
  const std::string path = kPaths[data[0] % kPaths.size()];
  const auto exchange = std::make_shared<FakeExchange>();
  exchange->sent = {.method = "POST",
                    .path = path,
                    .headers = {{"content-type", "application/json"}},
                    .body = std::string(reinterpret_cast<const char*>(data) + 2, size - 2),
                    .peer = "127.0.0.1:5000",
                    .id = "r1"};
  LOCKSTEP_CHECK(server.api->handle(exchange));
  server.loop.run();
  answer_all(server, data[1]);
  LOCKSTEP_CHECK(exchange->head.has_value() != exchange->response.has_value());
  exchange->head ? check_stream(*exchange) : check_whole(*exchange->response, path);
  LOCKSTEP_CHECK(server.api->open_requests() == 0 && server.api->open_sequences() == 0);
  server.engine.calls.clear();
  server.engine.scores.clear();
  server.engine.tops.clear();
  return 0;
}
