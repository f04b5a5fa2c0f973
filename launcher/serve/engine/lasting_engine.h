// An engine that outlives the processes behind it: what they owe when they end, the next ones go on with.
//
//   open ─► LastingEngine ─► engine ✗        attach ─► another engine        the sink gets each token once
//              keeps the request and its tokens  ─── goes on after them ──►
//
// Answers do not depend on the engine (docs/numerics.md), so no client can tell from its answer that this happened.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "launcher/serve/engine/engine.h"
#include "runtime/core/clock.h"

namespace lockstep::serve {

/// On the loop's thread only, neither copied nor moved. Outlives its calls.
class LastingEngine final : public Engine {
 public:
  /// `clock` is borrowed.
  explicit LastingEngine(const Clock& clock) : clock_(clock) {}
  ~LastingEngine() override;

  /// From now on requests go to `engine`: open ones first, in the order of their arrival. Fails with
  /// `kFailedPrecondition` when it serves another model, or fewer slots or tokens than the first one.
  Result<void> attach(std::unique_ptr<Engine> engine);
  /// Requests wait for the next engine, since this one is lost or is to end. Returns it; null without one.
  std::unique_ptr<Engine> detach();
  /// No engine will follow: open requests fail with `error`, and so do later ones.
  void fail(const Error& error);

  bool is_attached() const { return engine_ != nullptr; }
  /// Tokens that have reached sinks since the start.
  uint64_t tokens() const { return tokens_; }

  /// Of the engine, or of the last one; an engine has been attached.
  const EngineFacts& facts() const override { return facts_; }
  std::unique_ptr<EngineCall> open(EngineRequest request, std::shared_ptr<EngineSink> sink) override;
  void score(std::vector<int32_t> ids, int top, OnScores done) override;
  /// Without an engine, or when it is detached before it answers: `kUnavailable`, as `activity`.
  void status(OnStatus done) override;
  void activity(OnActivity done) override;
  void finish() override;

 private:
  class Call;
  class Sink;
  struct Open;
  struct Text;
  struct Question;
  template <typename T>
  struct QuestionOf;
  template <typename T>
  std::function<void(Result<T>)> asked(std::function<void(Result<T>)> done);

  void send(const std::shared_ptr<Open>& open);
  void send(const std::shared_ptr<Text>& text);
  Error waits() const;

  const Clock& clock_;
  EngineFacts facts_;
  std::unique_ptr<Engine> engine_;  // null: it is lost, or there was none yet
  std::optional<Error> failure_;    // no engine will follow
  std::list<std::weak_ptr<Open>> open_;
  std::list<std::shared_ptr<Text>> texts_;
  std::list<std::shared_ptr<Question>> questions_;  // that the engine has not answered
  uint64_t tokens_ = 0;
};

}  // namespace lockstep::serve
