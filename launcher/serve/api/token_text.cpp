#include "launcher/serve/api/token_text.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/text/byte_level.h"
#include "runtime/text/unicode.h"

namespace lockstep::serve {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // "▁" of SentencePiece

/// The bytes of a byte-level token ("Ġthe"); empty when a character is outside the alphabet.
std::optional<std::string> from_byte_level(std::string_view token) {
  std::string bytes;
  for (size_t at = 0; at < token.size();) {
    const auto byte = text::byte_of_level(text::next_char(token, at));
    if (!byte) return std::nullopt;
    bytes += static_cast<char>(*byte);
  }
  return bytes;
}

size_t characters_of(std::string_view text) {
  size_t count = 0;
  for (const char byte : text) count += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  return count;
}

bool is_text(std::string_view bytes) { return text::find_invalid_utf8(bytes) == std::string_view::npos; }

Json empty_parts() {
  return {{"tokens", Json::array()},
          {"token_logprobs", Json::array()},
          {"top_logprobs", Json::array()},
          {"text_offset", Json::array()}};
}

Json chat_entry(const text::Tokenizer& tokenizer, int32_t id, float logprob) {
  const std::string bytes = token_bytes(tokenizer, id);
  Json numbers = Json::array();
  for (const char byte : bytes) numbers.push_back(static_cast<unsigned char>(byte));
  // Bytes that are no UTF-8 become U+FFFD when the line is written.
  return {{"token", bytes}, {"logprob", finite_logprob(logprob)}, {"bytes", std::move(numbers)}};
}

}  // namespace

std::string token_bytes(const text::Tokenizer& tokenizer, int32_t id) {
  const std::string token = tokenizer.token_of(id).value_or("");
  if (tokenizer.is_special(id)) return token;
  if (tokenizer.id_of("\xC4\xA0")) return from_byte_level(token).value_or(token);  // "Ġ": a byte-level vocabulary
  if (const auto byte = text::byte_of_fallback(token)) return std::string(1, static_cast<char>(*byte));
  std::string bytes = token;
  for (size_t at = bytes.find(kSpaceMark); at != std::string::npos; at = bytes.find(kSpaceMark, at + 1)) {
    bytes.replace(at, kSpaceMark.size(), " ");
  }
  return bytes;
}

std::string token_text(const text::Tokenizer& tokenizer, int32_t id) {
  std::string bytes = token_bytes(tokenizer, id);
  if (is_text(bytes)) return bytes;
  std::string text = "bytes:";
  for (const char byte : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return text;
}

double finite_logprob(float logprob) { return std::isfinite(logprob) ? static_cast<double>(logprob) : -9999.0; }

Json chat_logprobs(const text::Tokenizer& tokenizer, const std::vector<EngineToken>& tokens, int top) {
  Json content = Json::array();
  for (const EngineToken& token : tokens) {
    Json entry = chat_entry(tokenizer, token.id, token.logprob.value_or(0.0f));
    Json candidates = Json::array();
    for (const EngineCandidate& candidate : token.top) {
      if (candidates.size() < static_cast<size_t>(top)) {
        candidates.push_back(chat_entry(tokenizer, candidate.id, candidate.logprob));
      }
    }
    entry["top_logprobs"] = std::move(candidates);
    content.push_back(std::move(entry));
  }
  return content;
}

CompletionLogprobs::CompletionLogprobs(const text::Tokenizer& tokenizer, int top, text::SpecialPieces special)
    : tokenizer_(&tokenizer), top_(top), special_(special), parts_(std::make_unique<Json>(empty_parts())) {}

CompletionLogprobs::~CompletionLogprobs() = default;

void CompletionLogprobs::add_prompt(const Prompt& prompt, const std::vector<EngineScore>& scores) {
  echoed_ = prompt.text;
  for (const EngineScore& score : scores) add_token(score.id, score.logprob, score.top, shown_in_prompt(score.id));
  bytes_ = echoed_.size();
  characters_ = characters_of(echoed_);
}

void CompletionLogprobs::add(const std::vector<EngineToken>& tokens) {
  for (const EngineToken& token : tokens) {
    std::string shown = shown_in_answer(token.id);
    // Behind a special token a text begins, and may lack its first blank.
    const bool begins = !std::exchange(has_answer_, true) && !token.text.empty() && !token.text.starts_with(' ');
    if (begins && shown.starts_with(' ')) shown.erase(0, 1);
    add_token(token.id, token.logprob, token.top, shown);
  }
}

void CompletionLogprobs::add_token(int32_t id, const std::optional<float>& logprob,
                                   const std::vector<EngineCandidate>& top, std::string_view shown) {
  (*parts_)["tokens"].push_back(token_text(*tokenizer_, id));
  (*parts_)["text_offset"].push_back(characters_);
  bytes_ += shown.size();
  characters_ += characters_of(shown);
  if (!logprob) {  // the first token of a prompt
    (*parts_)["token_logprobs"].push_back(nullptr);
    (*parts_)["top_logprobs"].push_back(nullptr);
    return;
  }
  (*parts_)["token_logprobs"].push_back(finite_logprob(*logprob));
  if (top_ < 1) return;
  // The chosen token is always among them, with the same number: clients compare the two for equality.
  Json likeliest = Json::object();
  for (const EngineCandidate& candidate : top) {
    if (likeliest.size() < static_cast<size_t>(top_)) {
      likeliest.emplace(token_text(*tokenizer_, candidate.id), finite_logprob(candidate.logprob));
    }
  }
  likeliest.emplace(token_text(*tokenizer_, id), finite_logprob(*logprob));
  (*parts_)["top_logprobs"].push_back(std::move(likeliest));
}

/// What the token adds to the text. Of special tokens, those that the prompt was sent with.
std::string CompletionLogprobs::shown_in_prompt(int32_t id) const {
  std::string piece = token_bytes(*tokenizer_, id);
  if (tokenizer_->is_special(id)) {
    const bool was_sent = bytes_ < echoed_.size() && std::string_view(echoed_).substr(bytes_).starts_with(piece);
    return was_sent ? piece : std::string();
  }
  const bool is_first = bytes_ == 0 && !echoed_.empty();
  if (is_first && piece.starts_with(' ') && !echoed_.starts_with(' ')) piece.erase(0, 1);  // a prefix space
  return piece;
}

std::string CompletionLogprobs::shown_in_answer(int32_t id) const {
  const bool is_hidden = special_ == text::SpecialPieces::kSkip && tokenizer_->is_special(id);
  return is_hidden ? std::string() : token_bytes(*tokenizer_, id);
}

Json CompletionLogprobs::take() {
  if (top_ < 1) (*parts_)["top_logprobs"] = nullptr;
  return std::exchange(*parts_, empty_parts());
}

}  // namespace lockstep::serve
