// Tokens in log-probabilities: their bytes, their text, their place in the answer's text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/serve/api/body_field.h"
#include "launcher/serve/api/generation.h"
#include "launcher/serve/engine/engine.h"
#include "runtime/text/tokenizer.h"

namespace lockstep::serve {

/// The bytes that a token adds to a text; special tokens are their own text. Empty for an unknown id.
std::string token_bytes(const text::Tokenizer& tokenizer, int32_t id);

/// The text of a token in completions: one that is no whole text is "bytes:\xe2\x82", so different tokens have
/// different texts.
std::string token_text(const text::Tokenizer& tokenizer, int32_t id);

/// JSON has no infinity: an impossible token has −9999.
double finite_logprob(float logprob);

/// Of a chat: [{"token", "logprob", "bytes", "top_logprobs": […]}].
Json chat_logprobs(const text::Tokenizer& tokenizer, const std::vector<EngineToken>& tokens, int top);

/// The object `logprobs` of a completion, in parts: {"tokens", "token_logprobs", "top_logprobs", "text_offset"}.
class CompletionLogprobs {
 public:
  /// `special`: whether special tokens are part of the answer's text.
  CompletionLogprobs(const text::Tokenizer& tokenizer, int top, text::SpecialPieces special);

  /// The tokens of an echoed prompt; first.
  void add_prompt(const Prompt& prompt, const std::vector<EngineScore>& scores);
  void add(const std::vector<EngineToken>& tokens);
  /// What was added since the last call.
  Json take();

  ~CompletionLogprobs();

 private:
  void add_token(int32_t id, const std::optional<float>& logprob, const std::vector<EngineCandidate>& top,
                 std::string_view shown);
  std::string shown_in_prompt(int32_t id) const;
  std::string shown_in_answer(int32_t id) const;

  const text::Tokenizer* tokenizer_;
  int top_;
  text::SpecialPieces special_;
  std::string echoed_;  // of the prompt, as sent
  size_t bytes_ = 0;    // of the text so far
  size_t characters_ = 0;
  bool has_answer_ = false;  // a token of the answer was added
  std::unique_ptr<Json> parts_;
};

}  // namespace lockstep::serve
