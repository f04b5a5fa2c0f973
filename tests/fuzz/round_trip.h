// What holds for every tokenizer that was accepted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/check.h"
#include "runtime/text/tokenizer.h"

namespace lockstep::fuzz {

/// Encodes `text`; the ids decode, and as a stream to the same text.
inline void check_round_trip(const text::Tokenizer& tokenizer, std::string_view text) {
  const auto ids = tokenizer.encode(text, text::SpecialTokens::kAdd);
  if (!ids.has_value()) return;
  std::vector<int32_t> known;
  for (const int32_t id : ids.value()) {
    if (tokenizer.token_of(id)) known.push_back(id);  // a post-processor may name ids that nothing has
  }
  const auto whole = tokenizer.decode(known, text::SpecialPieces::kKeep);
  if (!whole.has_value()) return;
  text::StreamDecoder decoder(tokenizer, text::SpecialPieces::kKeep);
  std::string streamed;
  for (const int32_t id : known) streamed += decoder.put(id).value();
  streamed += decoder.finish().value();
  LOCKSTEP_CHECK(streamed == whole.value());
}

}  // namespace lockstep::fuzz
