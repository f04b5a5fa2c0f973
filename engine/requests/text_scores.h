// The scores of one text, filled by the session's sink and awaited by the caller.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/request.h"
#include "runtime/core/result.h"

namespace lockstep::requests {

/// Thread-safe. The caller and the sink share it and end in any order.
class TextScores {
 public:
  /// Keeps the `top` likeliest tokens of each position.
  TextScores(std::vector<int32_t> ids, int64_t top);

  const std::vector<int32_t>& ids() const { return ids_; }

  /// Called by the coordinator's thread with the scores of the next token, a row of the graph operation `score`, and
  /// its logits, if any.
  void take(std::span<const float> row, std::span<const float> logits);
  void finish(const std::optional<Error>& error);

  using Wait =
      std::function<void(std::unique_lock<std::mutex>&, std::condition_variable&, const std::function<bool()>&)>;
  /// @blocking
  Result<std::vector<TokenScore>> wait(const Wait& wait);

 private:
  const std::vector<int32_t> ids_;
  const size_t top_;
  std::mutex mutex_;  // guards the fields below
  std::condition_variable changed_;
  std::vector<TokenScore> scores_;
  bool is_done_ = false;
  std::optional<Error> error_;
};

}  // namespace lockstep::requests
