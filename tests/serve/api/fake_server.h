// What an API needs besides an engine: a loop that its owner drives, exchanges without a network, a tiny model's files.
//
// The tokenizer: token i < 256 is byte i; 256 "<s>" begins each text, 257 "</s>" ends an answer, 258 "<|turn|>". The
// chat template writes "<|turn|>ROLE:CONTENT" for each message and "<|turn|>assistant:".
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/serve/http/event_loop.h"
#include "launcher/serve/http/exchange.h"
#include "runtime/core/clock.h"

namespace lockstep::serve {

using Document = nlohmann::ordered_json;

/// Runs everything on the caller's thread when `run` is called; time passes with `advance`.
class FakeLoop final : public EventLoop {
 public:
  void post(std::function<void()> call) override { calls_.push_back(std::move(call)); }
  std::unique_ptr<Timer> after(Duration delay, std::function<void()> call) override;
  void compute(ComputeLane lane, std::function<void()> work, std::function<void()> done) override {
    lanes.push_back(lane);
    calls_.push_back([work = std::move(work), done = std::move(done)] { work(), done(); });
  }
  void run();
  void advance(Duration by);

  std::vector<ComputeLane> lanes;  // of the computations, in the order of submission

 private:
  struct Alarm {
    TimePoint at;
    std::function<void()> call;
  };
  class Holder;
  ManualClock clock_;
  std::deque<std::function<void()>> calls_;
  std::vector<std::weak_ptr<Alarm>> alarms_;
};

class FakeExchange final : public Exchange {
 public:
  HttpRequest sent;
  std::optional<HttpResponse> response;  // whole
  std::optional<HttpResponse> head;      // of a stream
  std::string stream;
  bool is_ended = false;
  size_t not_taken = 0;
  std::function<void()> on_taken, on_gone;

  const HttpRequest& request() const override { return sent; }
  void respond(HttpResponse whole) override { response = std::move(whole); }
  void begin_stream(HttpResponse begun) override { head = std::move(begun); }
  void write(std::string bytes) override { stream += bytes; }
  void end_stream() override { is_ended = true; }
  size_t unsent() const override { return not_taken; }
  void on_sent(size_t, std::function<void()> call) override { on_taken = std::move(call); }
  void on_disconnect(std::function<void()> call) override { on_gone = std::move(call); }

  int status() const { return response ? response->status : 0; }
  Document json() const { return response ? Document::parse(response->body) : Document(); }
  /// The data of the events, in order; "[DONE]" as a text.
  std::vector<Document> events() const;
};

void write_file(const std::filesystem::path& path, std::string_view text);

/// The files of the tiny model.
void write_tiny_model(const std::filesystem::path& directory);

}  // namespace lockstep::serve
