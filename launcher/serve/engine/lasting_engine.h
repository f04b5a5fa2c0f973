// One engine for the server, of one or more replicas, that outlives the processes behind them: what an engine owes when
// it ends, another replica goes on with, or the next engine.
//
//   open ─► LastingEngine ─┬─► engine of replica 0 ✗   attach ─► another        the sink gets each token once
//              keeps the   └─► engine of replica 1                 │
//              request and its tokens  ────────── goes on after them ──►
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
#include "launcher/serve/engine/routing.h"
#include "runtime/core/clock.h"

namespace lockstep::serve {

/// On the loop's thread only, neither copied nor moved. Outlives its calls.
class LastingEngine final : public Engine {
 public:
  /// `clock` is borrowed.
  explicit LastingEngine(const Clock& clock) : clock_(clock) {}
  ~LastingEngine() override;

  /// From now on `engine` serves as a replica, instead of the one before it: it goes on with that one's requests and
  /// with those that no engine has, in the order of their arrival. Fails with `kFailedPrecondition`, and changes
  /// nothing, when it serves another model, or slots of fewer tokens, than the first one.
  Result<void> attach(std::unique_ptr<Engine> engine, size_t replica = 0);
  /// The replica's engine is lost or is to end: another replica goes on with its requests; without one they wait for
  /// the next engine. Returns it; null without one.
  std::unique_ptr<Engine> detach(size_t replica = 0);
  /// No engine will follow: open requests fail with `error`, and so do later ones.
  void fail(const Error& error);
  /// Lets go of all engines; open requests get nothing more.
  void close();

  bool is_attached(size_t replica) const { return replica < places_.size() && places_[replica].engine != nullptr; }
  /// Replicas that serve.
  size_t attached() const;
  /// Tokens of a replica that have reached sinks since the start.
  uint64_t tokens(size_t replica) const { return replica < places_.size() ? places_[replica].tokens : 0; }

  /// Of the latest engine, with the slots of all that serve; an engine has been attached.
  const EngineFacts& facts() const override { return facts_; }
  std::unique_ptr<EngineCall> open(EngineRequest request, std::shared_ptr<EngineSink> sink) override;
  std::unique_ptr<EngineScoring> score(std::vector<int32_t> ids, int top, OnScores done) override;
  /// Of one replica, or of all that answer (combined.h). Without an engine, or when it is detached before it answers:
  /// `kUnavailable`.
  void status(size_t replica, OnStatus done);
  void activity(size_t replica, OnActivity done);
  void status(OnStatus done) override;
  void activity(OnActivity done) override;
  /// Ends the engines of all replicas.
  void finish() override;
  void finish(size_t replica);

 private:
  class Call;
  class Scoring;
  class Sink;
  struct Open;
  struct Text;
  using Texts = std::list<std::shared_ptr<Text>>;
  struct Question;
  template <typename T>
  struct QuestionOf;
  template <typename T>
  struct Poll;

  /// A replica.
  struct Place {
    std::unique_ptr<Engine> engine;                  // null: it is lost, or there was none yet
    std::list<std::shared_ptr<Question>> questions;  // that the engine has not answered
    uint64_t tokens = 0;
  };

  template <typename T>
  std::function<void(Result<T>)> asked(size_t replica, std::function<void(Result<T>)> done);
  template <typename T, typename Ask>
  void ask_all(std::function<void(Result<T>)> done, const Ask& ask);

  size_t choose(const std::vector<int32_t>& ids);
  void send(const std::shared_ptr<Open>& open, size_t replica);
  void send(const std::shared_ptr<Text>& text, size_t replica);
  void send_waiting();
  void count_slots();
  Error waits() const;

  const Clock& clock_;
  EngineFacts facts_;
  std::vector<Place> places_;  // by replica
  Routing routing_;
  std::optional<Error> failure_;  // no engine will follow
  std::list<std::weak_ptr<Open>> open_;
  const std::shared_ptr<Texts> texts_ = std::make_shared<Texts>();
};

}  // namespace lockstep::serve
