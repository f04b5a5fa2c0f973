// An engine whose answers a test writes, token by token.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/serve/engine/engine.h"

namespace lockstep::serve {

/// One request as the engine got it. A byte of text is a token; its id is its value (api_fixture.h).
class FakeCall {
 public:
  EngineRequest request;
  bool is_dropped = false;  // cancelled, or destroyed before its end
  bool is_paused = false;

  FakeCall(EngineRequest asked, std::shared_ptr<EngineSink> sink) : request(std::move(asked)), sink_(std::move(sink)) {}

  /// One token per byte; the text of a character comes with its last byte. Log-probability −0.5, and candidates from
  /// the id downwards with −0.5, −1.5 …
  void say(std::string_view text) {
    std::vector<EngineToken> tokens;
    for (size_t i = 0; i < text.size(); ++i) {
      held_ += text[i];
      const bool completes = i + 1 == text.size() || (static_cast<unsigned char>(text[i + 1]) & 0xC0) != 0x80;
      tokens.push_back(token(static_cast<unsigned char>(text[i]), completes ? std::exchange(held_, {}) : ""));
    }
    send(std::move(tokens));
  }
  /// A token with any text.
  void say_token(int32_t id, std::string text) { send({token(id, std::move(text))}); }

  void finish(std::string reason, int64_t cached_tokens = 0) {
    finish(EngineAnswer{.reason = std::move(reason), .cached_tokens = cached_tokens});
  }
  void finish(EngineAnswer answer) { std::exchange(sink_, nullptr)->on_done({std::move(answer)}); }
  void fail(const Error& error) { std::exchange(sink_, nullptr)->on_failed(error); }
  bool is_open() const { return sink_ != nullptr && !is_dropped; }

  /// The JSON value of an option; empty: not set.
  std::string option(std::string_view name) const {
    for (const auto& [key, value] : request.options) {
      if (key == name) return value;
    }
    return {};
  }

 private:
  EngineToken token(int32_t id, std::string text) const {
    EngineToken made{.id = id, .text = std::move(text)};
    if (!request.model_logprobs) return made;
    made.logprob = logprob;
    for (int i = 0; i < *request.model_logprobs; ++i) made.top.push_back({id - i, logprob - static_cast<float>(i)});
    return made;
  }
  void send(std::vector<EngineToken> tokens) {
    if (is_open()) sink_->on_tokens(std::move(tokens));
  }

  std::shared_ptr<EngineSink> sink_;
  std::string held_;

 public:
  float logprob = -0.5f;
};

/// One text to score as the engine got it.
struct FakeText {
  std::vector<int32_t> ids;
  Engine::OnScores done;
  bool is_dropped = false;  // its handle is gone
};

class FakeEngine final : public Engine {
 public:
  EngineFacts known{.model = "tiny", .slots = 2, .capacity = 64, .vocabulary = 260};
  std::vector<std::shared_ptr<FakeCall>> calls;
  std::vector<std::shared_ptr<FakeText>> scores;

  const EngineFacts& facts() const override { return known; }

  std::unique_ptr<EngineCall> open(EngineRequest request, std::shared_ptr<EngineSink> sink) override {
    calls.push_back(std::make_shared<FakeCall>(std::move(request), std::move(sink)));
    return std::make_unique<Handle>(calls.back());
  }

  std::unique_ptr<EngineScoring> score(std::vector<int32_t> ids, int top, OnScores done) override {
    tops.push_back(top);
    scores.push_back(std::make_shared<FakeText>(FakeText{std::move(ids), std::move(done)}));
    return std::make_unique<TextHandle>(scores.back());
  }
  /// Answers score `index`: none for the first token, then −1, −2 …; the likeliest token has −0.25.
  void give_score(size_t index) {
    const FakeText& text = *scores[index];
    if (text.is_dropped) return;
    std::vector<EngineScore> given;
    for (const int32_t id : text.ids) {
      EngineScore score{.id = id};
      if (!given.empty()) {
        score.logprob = -static_cast<float>(given.size());
        if (tops[index] > 0) score.top = {{'z', -0.25f}};
      }
      given.push_back(std::move(score));
    }
    text.done(std::move(given));
  }
  std::vector<int> tops;

  std::vector<OnStatus> questions;  // where it does not answer
  bool answers = true;
  void status(OnStatus done) override { answers ? done(EngineStatus{}) : questions.push_back(std::move(done)); }
  void activity(OnActivity done) override { done(EngineActivity{}); }
  void finish() override {}

 private:
  class Handle final : public EngineCall {
   public:
    explicit Handle(std::shared_ptr<FakeCall> call) : call_(std::move(call)) {}
    ~Handle() override { call_->is_dropped = true; }
    void cancel() override { call_->is_dropped = true; }
    void pause() override { call_->is_paused = true; }
    void resume() override { call_->is_paused = false; }

   private:
    std::shared_ptr<FakeCall> call_;  // shared with the test
  };
  class TextHandle final : public EngineScoring {
   public:
    explicit TextHandle(std::shared_ptr<FakeText> text) : text_(std::move(text)) {}
    ~TextHandle() override { text_->is_dropped = true; }

   private:
    std::shared_ptr<FakeText> text_;  // shared with the test
  };
};

}  // namespace lockstep::serve
