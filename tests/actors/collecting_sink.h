// A sink that records its calls, for a test to wait on.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "actors/request.h"
#include "tests/actors/fake_engine.h"

namespace lockstep::actors {

struct Answer {
  std::vector<int32_t> tokens;
  std::vector<TimePoint> made;  // when
  std::vector<std::vector<float>> logits;
  std::optional<generation::FinishReason> reason;
  std::optional<Error> error;
  int finishes = 0;
};

class CollectingSink final : public Sink {
 public:
  using Judge = std::function<Verdict(RequestId, const std::vector<int32_t>& tokens)>;

  explicit CollectingSink(Judge judge = {}) : judge_(std::move(judge)) {}

  Verdict on_token(RequestId request, const MadeToken& token) override {
    std::lock_guard lock(mutex_);
    Answer& answer = answers_[request];
    answer.tokens.push_back(token.id);
    answer.made.push_back(token.made);
    answer.logits.emplace_back(token.logits.begin(), token.logits.end());
    changed_.notify_all();
    return judge_ ? judge_(request, answer.tokens) : Verdict::kContinue;
  }

  void on_finish(RequestId request, generation::FinishReason reason, const std::optional<Error>& error) override {
    std::lock_guard lock(mutex_);
    Answer& answer = answers_[request];
    answer.reason = reason;
    answer.error = error;
    ++answer.finishes;
    changed_.notify_all();
  }

  /// Waits until `request` has at least `tokens` tokens.
  bool wait_for_tokens(RequestId request, size_t tokens) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return answers_[request].tokens.size() >= tokens; });
  }

  bool wait_for_finish(RequestId request) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return answers_[request].finishes > 0; });
  }

  void clear() {
    std::lock_guard lock(mutex_);
    answers_.clear();
  }

  Answer answer(RequestId request) {
    std::lock_guard lock(mutex_);
    return answers_[request];
  }

 private:
  const Judge judge_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<RequestId, Answer> answers_;
};

}  // namespace lockstep::actors
