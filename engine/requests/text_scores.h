// The scores of one text, filled by the session's sink and awaited by the caller.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "engine/requests/delivery.h"
#include "lockstep/request.h"
#include "runtime/core/result.h"

namespace lockstep::requests {

/// Thread-safe. Handles and the sink share it and end in any order.
class TextScores {
 public:
  /// Keeps the `top` likeliest tokens of each position.
  TextScores(std::vector<int32_t> ids, int64_t top);

  const std::vector<int32_t>& ids() const { return ids_; }

  /// Called by the coordinator's thread with the scores of the next token, a row of the graph operation `score`, and
  /// its logits, if any.
  void take(std::span<const float> row, std::span<const float> logits);
  void finish(const std::optional<Error>& error);
  /// The engine ends before the text does; `finish` follows.
  void abandon();

  /// The text has its slot. Called before `finish`.
  void start();
  bool has_started() const;

  /// Calls into the engine; removed by `finish`.
  struct Links {
    std::function<void()> stop;
    std::function<void(std::unique_lock<std::mutex>&, std::condition_variable&, const std::function<bool()>&)> wait;
    Delivery* delivery = nullptr;
  };
  void link(Links links);

  // Called by any thread.
  bool is_done() const;
  bool is_abandoned() const;
  void cancel();
  void on_done(std::function<void()> call);
  /// @blocking
  Result<std::vector<TokenScore>> wait();

 private:
  const std::vector<int32_t> ids_;
  const size_t top_;
  mutable std::mutex mutex_;  // guards the fields below
  std::condition_variable changed_;
  std::vector<TokenScore> scores_;
  bool has_started_ = false;
  bool is_cancelled_ = false;
  bool is_abandoned_ = false;
  bool is_done_ = false;
  std::optional<Error> error_;
  Links links_;
  std::function<void()> on_done_;
};

}  // namespace lockstep::requests
