// The text of one answer, built as its tokens arrive.
//
//   prompt, token … ─► TextStreamer ─► AnswerText: StopStrings ─► text so far, the piece that the token completes
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/generation/stop_strings.h"
#include "runtime/generation/streamer.h"
#include "runtime/text/tokenizer.h"

namespace lockstep::requests {

/// Used by one thread.
class AnswerText final : public generation::Streamer {
 public:
  /// The tokenizer outlives the object. Begin with `follow`.
  AnswerText(const text::Tokenizer& tokenizer, const std::vector<std::string>& stop_strings,
             text::SpecialPieces special = text::SpecialPieces::kSkip)
      : stops_(stop_strings), streamer_(tokenizer, *this, generation::PromptText::kSkip, special) {}
  AnswerText(const AnswerText&) = delete;
  AnswerText& operator=(const AnswerText&) = delete;

  /// The prompt, whose text the answer's continues (text::StreamDecoder::follow); empty: none.
  Result<void> follow(std::span<const int32_t> prompt) { return streamer_.put(prompt); }
  /// Adds a token; an id that the tokenizer does not have adds no text.
  Result<void> put(int32_t id) { return streamer_.put(std::span(&id, 1)); }
  /// Ends the tokens: withheld text is added, unless a stop string has ended the text.
  Result<void> finish(generation::FinishReason reason) { return streamer_.end(reason); }

  /// Whether a stop string has ended the text, which is cut before it.
  bool stopped() const { return stops_.stopped(); }
  /// That string; empty: none.
  std::string_view stop_string() const { return stops_.match(); }
  const std::string& text() const { return text_; }
  /// The text added since the last call.
  std::string_view take_piece() {
    const std::string_view piece = std::string_view(text_).substr(taken_);
    taken_ = text_.size();
    return piece;
  }

  void put(std::string_view text) override { text_ += stops_.put(text).text; }
  void end(generation::FinishReason) override { text_ += stops_.finish(); }

 private:
  generation::StopStrings stops_;
  generation::TextStreamer streamer_;
  std::string text_;
  size_t taken_ = 0;  // bytes
};

}  // namespace lockstep::requests
