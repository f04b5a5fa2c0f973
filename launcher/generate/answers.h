// The answers of a job, collected on rank 0 while they are made: tokens, texts, logits, times; streamed to stdout when
// the user asked for one text.
//
//   token ─► TextStreamer ─► ShownText: StopStrings ─► Answer::text, show
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/request.h"
#include "runtime/core/clock.h"
#include "runtime/generation/stop_strings.h"
#include "runtime/generation/streamer.h"
#include "runtime/generation/token_chooser.h"
#include "runtime/generation/token_times.h"
#include "runtime/text/tokenizer.h"

namespace lockstep::launcher {

/// One row's answer.
struct Answer {
  std::vector<int32_t> tokens;  // up to and with the EOS token
  std::string text;             // without special tokens, cut before a stop string
  std::vector<float> logits;    // [tokens, vocabulary] when asked for
  std::optional<double> score;  // of a beam
  std::vector<std::shared_ptr<const generation::TokenRecord>> records;  // [tokens] when asked for
  generation::FinishReason reason = generation::FinishReason::kError;
  std::optional<Error> error;
  generation::TokenTimes times;  // none where tokens are known at the end only
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
    bool as_made = true;               // false: tokens are known at the end only
  };

  /// The clock and the tokenizer outlive the object.
  Answers(const Clock& clock, Options options);

  actors::Verdict on_token(RequestId request, const actors::MadeToken& token) override;
  void on_finish(RequestId request, generation::FinishReason reason, const std::optional<Error>& error) override;

  /// What the host chose for `request`: its answers from the row of that number on. Rows whose tokens came as they were
  /// made keep them; a request that failed keeps its error. Call when the session has ended.
  void adopt(RequestId request, const std::vector<generation::Sequence>& sequences);

  /// By row (a request's id is its first row). Call when the session has ended.
  const std::vector<Answer>& rows() const { return answers_; }
  /// The time of submission, from which times to the first token count.
  void mark_start();

  /// Seconds to the first token of row 0; empty if there was none.
  std::optional<double> ttft_s() const;
  /// Mean seconds between the tokens of all rows after their first; empty if no row has two.
  std::optional<double> tpot_s() const;
  int64_t tokens() const;

 private:
  /// Receives one row's text and passes on what stop strings let through.
  class ShownText final : public generation::Streamer {
   public:
    ShownText(const std::vector<std::string>& stop_strings, std::string& text, Show show)
        : stops_(stop_strings), text_(text), show_(std::move(show)) {}

    void put(std::string_view text) override { append(stops_.put(text).text); }
    void end(generation::FinishReason) override { append(stops_.finish()); }
    bool stopped() const { return stops_.stopped(); }

   private:
    void append(std::string_view text);

    generation::StopStrings stops_;
    std::string& text_;
    Show show_;
  };

  struct RowText {
    RowText(const Options& options, size_t row, std::string& text);

    ShownText shown;
    generation::TextStreamer streamer;
  };

  /// Decodes a token; whether the row ends with it, by a stop string or an id that is no token's.
  bool put_text(size_t row, int32_t token);
  void finish_text(size_t row);

  const Clock& clock_;
  Options options_;
  TimePoint start_;
  std::vector<Answer> answers_;                  // never resized: texts are written into them
  std::vector<std::unique_ptr<RowText>> texts_;  // [rows], or none without a tokenizer
};

}  // namespace lockstep::launcher
