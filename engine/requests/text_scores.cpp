#include "engine/requests/text_scores.h"

#include <utility>

#include "runtime/core/check.h"

namespace lockstep::requests {

TextScores::TextScores(std::vector<int32_t> ids, int64_t top) : ids_(std::move(ids)), top_(static_cast<size_t>(top)) {
  scores_.push_back({.id = ids_.front(), .logprob = std::nullopt, .top = {}, .logits = {}});
  is_done_ = ids_.size() == 1;
}

void TextScores::take(std::span<const float> row, std::span<const float> logits) {
  std::lock_guard lock(mutex_);
  LOCKSTEP_CHECK(scores_.size() < ids_.size() && row.size() >= 1 + 2 * top_, scores_.size(), row.size());
  const size_t most = (row.size() - 1) / 2;
  TokenScore& score = scores_.emplace_back(
      TokenScore{.id = ids_[scores_.size()], .logprob = row[0], .top = {}, .logits = {logits.begin(), logits.end()}});
  for (size_t i = 0; i < top_; ++i) score.top.push_back({static_cast<int32_t>(row[1 + i]), row[1 + most + i]});
}

void TextScores::link(Links links) {
  std::lock_guard lock(mutex_);
  if (!is_done_) links_ = std::move(links);
}

void TextScores::start() {
  std::lock_guard lock(mutex_);
  has_started_ = true;
}

bool TextScores::has_started() const {
  std::lock_guard lock(mutex_);
  return has_started_;
}

void TextScores::finish(const std::optional<Error>& error) {
  std::function<void()> call;
  Delivery* delivery = nullptr;
  {
    std::lock_guard lock(mutex_);
    is_done_ = true;
    error_ = error;
    if (!error_ && scores_.size() < ids_.size()) {
      error_ = is_cancelled_
                   ? Error{ErrorKind::kCancelled, "[engine/requests] the text is not scored: it was cancelled"}
                   : Error{ErrorKind::kUnavailable,
                           "[engine/requests] the text is not scored: the engine was suspended; score it again"};
    }
    delivery = std::exchange(links_, {}).delivery;  // the engine may be destroyed from here on
    call = std::exchange(on_done_, nullptr);
  }
  changed_.notify_all();
  if (call && delivery != nullptr) delivery->post(std::move(call));
}

void TextScores::abandon() {
  std::lock_guard lock(mutex_);
  is_abandoned_ = true;
}

bool TextScores::is_abandoned() const {
  std::lock_guard lock(mutex_);
  return is_abandoned_;
}

bool TextScores::is_done() const {
  std::lock_guard lock(mutex_);
  return is_done_;
}

void TextScores::cancel() {
  std::function<void()> stop;
  {
    std::lock_guard lock(mutex_);
    if (is_done_) return;
    is_cancelled_ = true;
    stop = links_.stop;
  }
  if (stop) stop();
}

void TextScores::on_done(std::function<void()> call) {
  {
    std::lock_guard lock(mutex_);
    if (!is_done_) {
      on_done_ = std::move(call);
      return;
    }
  }
  call();
}

Result<std::vector<TokenScore>> TextScores::wait() {
  std::unique_lock lock(mutex_);
  const auto done = [this] { return is_done_; };
  if (const auto wait = links_.wait; wait && !is_done_) {
    wait(lock, changed_, done);
  } else {
    changed_.wait(lock, done);
  }
  if (error_) return *error_;
  return scores_;
}

}  // namespace lockstep::requests

namespace lockstep {

bool ScoreHandle::is_done() const { return scores_->is_done(); }
void ScoreHandle::cancel() { scores_->cancel(); }
Result<std::vector<TokenScore>> ScoreHandle::wait() { return scores_->wait(); }
void ScoreHandle::on_done(std::function<void()> call) { scores_->on_done(std::move(call)); }
bool ScoreHandle::is_abandoned() const { return scores_->is_abandoned(); }

}  // namespace lockstep
