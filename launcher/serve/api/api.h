// The protocols of the server: finds the one of a path, reads the body, opens engine requests, writes the answer.
//
//   exchange ─► path, method, type ─► body read on its lane's computing thread ─► queue limit ─► engine ─► whole answer
//   or stream
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/serve/engine/engine.h"
#include "launcher/serve/http/event_loop.h"
#include "launcher/serve/http/exchange.h"
#include "runtime/core/clock.h"
#include "runtime/core/result.h"

namespace lockstep::serve {

struct ApiOptions {
  std::string model;                               // the id that clients use
  std::filesystem::path model_directory;           // its tokenizer, chat template and end tokens
  int64_t created = 0;                             // Unix time, for /v1/models
  size_t max_open = 264;                           // sequences open at once: slots and queue; past it 429
  size_t most_choices = 1024;                      // prompts × answers of a request
  size_t most_unsent = size_t{256} << 10;          // bytes that a client has not read, before its sequences pause
  Duration keep_alive = std::chrono::seconds(10);  // of silence, before a comment goes into a stream
  std::function<int64_t()> unix_time = {};         // empty: the machine's
  std::function<uint64_t()> random = {};           // seeds of requests that name none; empty: the machine's
  const Clock* clock = nullptr;                    // null: the machine's
};

/// A request as metrics and logs see it.
struct ApiRequest {
  uint64_t number = 0;        // of this process, from 1
  std::string id;             // x-request-id
  std::string_view endpoint;  // "/v1/completions"
  std::string peer;
  bool stream = false;
  size_t choices = 0;         // sequences
  int64_t prompt_tokens = 0;  // of all prompts
  int64_t most_tokens = 0;    // that a sequence may have: its prompt and its longest answer
};

/// The status of a request whose client left before its whole answer, as nginx logs it. No client receives it.
constexpr int kClientClosedRequest = 499;

struct ApiEnd {
  int status = 200;          // of the response; a stream that broke has the status of its error
  std::string_view outcome;  // "stop", "length", "tool_calls", "cancelled" (the client left), "error"
  std::string error;         // message
  int64_t cached_tokens = 0;
  int64_t new_tokens = 0;
  Duration duration{};                            // since the request arrived
  std::optional<Duration> waited = std::nullopt;  // at the engine, for the first slot; none: no sequence has ended
};

/// Receives what happens to requests that reached the engine. On the loop's thread.
class ApiObserver {
 public:
  virtual ~ApiObserver() = default;
  virtual void on_started(const ApiRequest& request) = 0;
  /// `waited`: since the request arrived.
  virtual void on_first_token(const ApiRequest& request, Duration waited) = 0;
  /// `count` tokens of one sequence; `gap`: since its previous tokens, zero for the first.
  virtual void on_tokens(const ApiRequest& request, size_t count, Duration gap) = 0;
  virtual void on_ended(const ApiRequest& request, const ApiEnd& end) = 0;
  /// A request that did not reach the engine: answered at once (`status` 200), refused, or left by its client.
  /// Only the request's id, endpoint and peer are known.
  virtual void on_answered(const ApiRequest& request, int status) = 0;
};

/// On the loop's thread only.
class Api {
 public:
  /// Reads the model's files. The arguments outlive the API.
  static Result<std::unique_ptr<Api>> make(ApiOptions options, Engine& engine, EventLoop& loop, ApiObserver& observer);
  virtual ~Api() = default;

  /// Returns false, without a response, when the path is not one of this API.
  virtual bool handle(const std::shared_ptr<Exchange>& exchange) = 0;

  /// Requests that have no whole answer yet.
  virtual size_t open_requests() const = 0;
  /// Sequences that the engine has.
  virtual size_t open_sequences() const = 0;
};

}  // namespace lockstep::serve
