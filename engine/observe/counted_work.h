// Decorators of step engine and sink for progress reports in tokens.
#pragma once

#include <atomic>

#include "actors/request.h"
#include "engine/group/progress_reporter.h"
#include "shards/step_engine_decorator.h"

namespace lockstep::observe {

/// Counts the rows of prefill and score steps.
class CountedSteps final : public shards::StepEngineDecorator {
 public:
  /// Borrows both.
  CountedSteps(shards::StepEngine& inner, group::ProgressReporter& progress)
      : StepEngineDecorator(inner), progress_(progress) {}

  Result<shards::StepOutput> prefill(const shards::PrefillRows& rows, shards::StepTag tag) override {
    auto output = inner().prefill(rows, tag);
    progress_.add(Progress::Work::kPrefill, std::ssize(rows.ids));
    return output;
  }
  Result<shards::ScoreOutput> score(const shards::ScoreRows& rows, shards::StepTag tag) override {
    auto output = inner().score(rows, tag);
    progress_.add(Progress::Work::kPrefill, std::ssize(rows.ids));
    return output;
  }

 private:
  group::ProgressReporter& progress_;
};

/// Counts the prompts of requests and forwards every call. Thread-safe.
class CountedRequests final : public actors::Sink {
 public:
  /// Borrows both.
  CountedRequests(actors::Sink& inner, group::ProgressReporter& progress) : inner_(inner), progress_(progress) {}

  /// Call before `request` is submitted.
  void submitted(const actors::Request& request) {
    ++open_;
    progress_.expect(Progress::Work::kPrefill, std::ssize(request.ids));
  }

  void on_start(RequestId request) override { inner_.on_start(request); }
  actors::Verdict on_token(RequestId request, const actors::MadeToken& token) override {
    return inner_.on_token(request, token);
  }
  void on_reused(RequestId request, int64_t tokens) override {
    progress_.add(Progress::Work::kPrefill, tokens);
    inner_.on_reused(request, tokens);
  }
  void on_score(RequestId request, std::span<const float> row, std::span<const float> logits) override {
    inner_.on_score(request, row, logits);
  }
  void on_finish(RequestId request, generation::FinishReason reason, const std::optional<Error>& error) override {
    finish_one();
    inner_.on_finish(request, reason, error);
  }
  void on_abandoned(RequestId request, const Error& error) override {
    finish_one();
    inner_.on_abandoned(request, error);
  }

 private:
  void finish_one() {
    if (--open_ == 0) progress_.finish(Progress::Work::kPrefill);  // some may have ended before their prefill did
  }

  actors::Sink& inner_;
  group::ProgressReporter& progress_;
  std::atomic<int64_t> open_ = 0;
};

}  // namespace lockstep::observe
