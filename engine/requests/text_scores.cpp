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

void TextScores::finish(const std::optional<Error>& error) {
  {
    std::lock_guard lock(mutex_);
    is_done_ = true;
    error_ = error;
    if (!error_ && scores_.size() < ids_.size()) {
      error_ = Error{ErrorKind::kUnavailable,
                     "[engine/requests] the text is not scored: the engine was suspended; score it again"};
    }
  }
  changed_.notify_all();
}

Result<std::vector<TokenScore>> TextScores::wait(const Wait& wait) {
  std::unique_lock lock(mutex_);
  wait(lock, changed_, [this] { return is_done_; });
  if (error_) return *error_;
  return std::move(scores_);
}

}  // namespace lockstep::requests
