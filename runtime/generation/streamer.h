// Receivers of generated tokens and text during generation.
//
//   put(prompt) put(token) put(token) … end ─► TokenStreamer ─ TextStreamer ─► Streamer: put(text) … end
#pragma once

#include <span>
#include <string_view>

#include "runtime/core/result.h"
#include "runtime/generation/finish_reason.h"
#include "runtime/text/tokenizer.h"

namespace lockstep::generation {

/// Receives one sequence's text: any number of `put`, then one `end`. Used by one thread.
class Streamer {
 public:
  virtual ~Streamer() = default;

  /// The next piece of text: complete characters, possibly none.
  virtual void put(std::string_view text) = 0;
  virtual void end(FinishReason reason) = 0;
};

/// Receives one sequence's ids: its prompt once, then new ones (several at once after accepted drafts), then one `end`.
/// Used by one thread. Both may fail when the receiver cannot accept more; nothing is put after that.
class TokenStreamer {
 public:
  virtual ~TokenStreamer() = default;

  virtual Result<void> put(std::span<const int32_t> ids) = 0;
  virtual Result<void> end(FinishReason reason) = 0;
};

/// Whether a text streamer shows the prompt, which is what is put first. Text behind one that it skips goes on after
/// it.
enum class PromptText { kShow, kSkip };

/// Converts ids to text; a character is passed on as soon as its last byte is known.
class TextStreamer final : public TokenStreamer {
 public:
  /// Tokenizer and receiver outlive the streamer.
  TextStreamer(const text::Tokenizer& tokenizer, Streamer& receiver, PromptText prompt,
               text::SpecialPieces special = text::SpecialPieces::kSkip);

  /// An id that no token has adds nothing: models are often padded to more ids than their tokenizer has.
  Result<void> put(std::span<const int32_t> ids) override;
  Result<void> end(FinishReason reason) override;

 private:
  const text::Tokenizer* tokenizer_;
  text::StreamDecoder decoder_;
  Streamer* receiver_;
  bool skips_next_;
};

}  // namespace lockstep::generation
