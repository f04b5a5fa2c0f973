// One sequence of a request: its call, its reader, what it gave.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "launcher/serve/api/generation.h"
#include "runtime/core/clock.h"

namespace lockstep::serve {

class Sequence {
 public:
  Sequence(size_t index, size_t prompt, const std::optional<ReadOutput>& output) {
    choice_.index = index;
    choice_.prompt = prompt;
    if (output) reader_ = make_reader(output->format, output->parts);
  }

  size_t index() const { return choice_.index; }
  const Choice& choice() const { return choice_; }

  /// Reads tokens. `collect`: they also become part of the choice, for a whole answer.
  ChoicePart take(std::vector<EngineToken> tokens, bool collect);
  /// The reader's rest.
  ChoicePart finish(bool collect);
  void end(FinishReason reason, std::string stop_string) {
    const bool calls = has_tools_ && reason == FinishReason::kStop;
    choice_.reason = calls ? FinishReason::kToolCalls : reason;
    choice_.stop_string = std::move(stop_string);
  }

  /// Tokens of reasoning since the last call.
  int64_t take_reasoning_count() { return std::exchange(reasoning_tokens_, 0); }

  double mean_logprob() const {
    return count_ > 0 ? logprob_sum_ / static_cast<double>(count_) : -std::numeric_limits<double>::infinity();
  }

  std::unique_ptr<EngineCall> call;
  std::optional<TimePoint> last_time;  // of a token
  bool begun = false;                  // in the stream

 private:
  void note_pieces(const std::vector<OutputPiece>& pieces, bool collect);

  Choice choice_;
  std::unique_ptr<OutputReader> reader_;  // null: all text is content
  double logprob_sum_ = 0;
  int64_t count_ = 0;
  int64_t reasoning_tokens_ = 0;
  bool has_tools_ = false;
};

}  // namespace lockstep::serve
