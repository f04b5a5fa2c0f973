// The answers of a job, collected on rank 0 while they are made: tokens, texts, logits, times; streamed to stdout when
// the user asked for one text.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/request.h"
#include "runtime/core/clock.h"
#include "runtime/generation/stop_strings.h"
#include "runtime/text/tokenizer.h"

namespace lockstep::launcher {

/// One row's answer.
struct Answer {
  std::vector<int32_t> tokens;  // up to and with the EOS token
  std::string text;             // without special tokens, cut before a stop string
  std::vector<float> logits;    // [tokens, vocabulary] when asked for
  generation::FinishReason reason = generation::FinishReason::kError;
  std::optional<Error> error;
  std::vector<TimePoint> token_times;
};

class Answers final : public actors::Sink {
 public:
  /// What to do with text as it is made. Called on the coordinator's thread.
  using Show = std::function<void(std::string_view)>;

  struct Options {
    size_t rows = 1;
    const text::Tokenizer* tokenizer = nullptr;  // null: ids only, no texts and no stop strings
    std::vector<std::string> stop_strings;
    std::optional<Duration> max_time;  // from `mark_start`: a row that is older stops with its next token
    Show show;                         // may be empty; of row 0 only
  };

  /// The clock and the tokenizer outlive the object.
  Answers(const Clock& clock, Options options);

  actors::Verdict on_token(RequestId request, int32_t token, std::span<const float> logits) override;
  void on_finish(RequestId request, generation::FinishReason reason, const std::optional<Error>& error) override;

  /// By row (a request's id is its row). Call when the session has ended.
  const std::vector<Answer>& rows() const { return answers_; }
  /// The time of submission, from which times to the first token count.
  void mark_start() { start_ = clock_.now(); }

  /// Seconds to the first token of row 0; empty if there was none.
  std::optional<double> ttft_s() const;
  /// Mean seconds between the tokens of all rows after their first; empty if no row has two.
  std::optional<double> tpot_s() const;
  int64_t tokens() const;

 private:
  struct RowText {
    std::optional<text::StreamDecoder> decoder;
    std::optional<generation::StopStrings> stops;
  };

  void append(size_t row, std::string_view text);

  const Clock& clock_;
  Options options_;
  TimePoint start_;
  std::vector<Answer> answers_;
  std::vector<RowText> texts_;
};

}  // namespace lockstep::launcher
