#include "runtime/generation/streamer.h"

#include <string>
#include <utility>

namespace lockstep::generation {

TextStreamer::TextStreamer(const text::Tokenizer& tokenizer, Streamer& receiver, PromptText prompt,
                           text::SpecialPieces special)
    : tokenizer_(&tokenizer),
      decoder_(tokenizer, special),
      receiver_(&receiver),
      skips_next_(prompt == PromptText::kSkip) {}

Result<void> TextStreamer::put(std::span<const int32_t> ids) {
  if (std::exchange(skips_next_, false)) return decoder_.follow(ids);
  std::string text;
  for (const int32_t id : ids) {
    if (!tokenizer_->token_of(id)) continue;
    LOCKSTEP_TRY(const std::string piece, decoder_.put(id));
    text += piece;
  }
  receiver_->put(text);
  return ok();
}

Result<void> TextStreamer::end(FinishReason reason) {
  LOCKSTEP_TRY(const std::string rest, decoder_.finish());
  if (!rest.empty()) receiver_->put(rest);
  receiver_->end(reason);
  return ok();
}

}  // namespace lockstep::generation
