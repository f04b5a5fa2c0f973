// An API with a tiny model's text, a scripted engine, and a loop that the test drives.
//
// The tokenizer: token i < 256 is byte i; 256 "<s>" begins each text, 257 "</s>" ends an answer, 258 "<|turn|>". The
// chat template writes "<|turn|>ROLE:CONTENT" for each message and "<|turn|>assistant:".
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/serve/api/api.h"
#include "tests/serve/api/fake_engine.h"

namespace lockstep::serve {

using Document = nlohmann::ordered_json;

/// Runs everything on the caller's thread when `run` is called; time passes with `advance`.
class FakeLoop final : public EventLoop {
 public:
  void post(std::function<void()> call) override { calls_.push_back(std::move(call)); }
  std::unique_ptr<Timer> after(Duration delay, std::function<void()> call) override;
  void compute(std::function<void()> work, std::function<void()> done) override {
    calls_.push_back([work = std::move(work), done = std::move(done)] { work(), done(); });
  }
  void run();
  void advance(Duration by);

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

/// Writes down what the API reports.
class RecordingObserver final : public ApiObserver {
 public:
  std::vector<std::string> lines;
  void on_started(const ApiRequest& request) override;
  void on_first_token(const ApiRequest& request, Duration waited) override;
  void on_tokens(const ApiRequest& request, size_t count, Duration gap) override;
  void on_ended(const ApiRequest& request, const ApiEnd& end) override;
  void on_answered(std::string_view endpoint, int status) override;
};

class ApiTest : public ::testing::Test {
 protected:
  ApiTest();
  ~ApiTest() override;

  /// Makes the API again, with other options or after a change of the model's files.
  void restart();
  /// Sends a request and lets the loop run.
  std::shared_ptr<FakeExchange> send(std::string method, std::string path, std::string body = {});
  std::shared_ptr<FakeExchange> post(std::string path, const Document& body) { return send("POST", path, body.dump()); }
  std::shared_ptr<FakeExchange> complete(const Document& body) { return post("/v1/completions", body); }
  std::shared_ptr<FakeExchange> chat(const Document& body) { return post("/v1/chat/completions", body); }
  void write_file(const char* name, std::string_view text) const;

  std::filesystem::path directory_;
  ManualClock clock_;
  FakeLoop loop_;
  FakeEngine engine_;
  RecordingObserver observer_;
  ApiOptions options_;
  std::unique_ptr<Api> api_;
};

/// A text as ids, without "<s>".
inline std::vector<int32_t> bytes_of(std::string_view text) {
  std::vector<int32_t> ids;
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

/// A conversation of one user message.
inline Document user_says(std::string_view text) { return Document::array({{{"role", "user"}, {"content", text}}}); }

}  // namespace lockstep::serve
