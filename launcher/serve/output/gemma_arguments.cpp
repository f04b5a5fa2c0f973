#include "launcher/serve/output/gemma_arguments.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace lockstep::serve {
namespace {

using Json = nlohmann::json;
using State = JsonScanner::State;

constexpr std::string_view kMark = "<escape>";
constexpr size_t kDeepest = 256;

}  // namespace

State GemmaArguments::emit(const std::string& text, Expect next) {
  out_.arguments(text);
  token_.clear();
  expect_ = next;
  return State::kMore;
}

State GemmaArguments::put(char byte) {
  switch (expect_) {
    case Expect::kStart: return byte == '{' ? open(byte) : State::kInvalid;
    case Expect::kKey:
    case Expect::kKeyOrClose:
    case Expect::kKeyText: return put_key(byte);
    case Expect::kValue:
    case Expect::kValueOrClose: return put_value(byte);
    case Expect::kMark:
      token_ += byte;
      if (!kMark.starts_with(token_)) return State::kInvalid;
      return token_ == kMark ? emit("\"", Expect::kText) : State::kMore;
    case Expect::kText: return put_text(byte);
    default: return put_after(byte);
  }
}

State GemmaArguments::put_key(char byte) {
  if (byte == '}' && expect_ == Expect::kKeyOrClose) return put_after(byte);
  if (byte == ':' && !token_.empty()) return emit(json_string(token_) + ":", Expect::kValue);
  if (std::string_view("{}[],:<\"").find(byte) != std::string_view::npos) return State::kInvalid;
  if (is_json_space(byte) && token_.empty()) return State::kMore;
  token_ += byte;
  expect_ = Expect::kKeyText;
  return State::kMore;
}

State GemmaArguments::put_value(char byte) {
  if (is_json_space(byte)) return State::kMore;
  if (byte == ']' && expect_ == Expect::kValueOrClose) return put_after(byte);
  if (byte == '{' || byte == '[') return open(byte);
  if (byte == ',' || byte == '}' || byte == ']' || byte == ':') return State::kInvalid;
  token_ = byte;
  expect_ = byte == '<' ? Expect::kMark : Expect::kScalar;
  return State::kMore;
}

/// Text up to the next mark; a part of the text that may be the mark is withheld.
State GemmaArguments::put_text(char byte) {
  token_ += byte;
  if (token_ == kMark) return emit("\"", Expect::kAfter);
  if (kMark.starts_with(token_)) return State::kMore;
  std::string text;
  while (!token_.empty() && !kMark.starts_with(token_)) {
    text += json_string_byte(token_.front());
    token_.erase(0, 1);
  }
  out_.arguments(text);
  return State::kMore;
}

/// A number, true, false, null, or text without marks; and what is behind a value.
State GemmaArguments::put_after(char byte) {
  const bool ends = byte == ',' || byte == '}' || byte == ']';
  if (expect_ == Expect::kScalar && !ends) {
    token_ += byte;
    return State::kMore;
  }
  if (is_json_space(byte)) return State::kMore;
  if (!ends || (byte != ',' && byte != (open_.back() == '{' ? '}' : ']'))) return State::kInvalid;
  if (expect_ == Expect::kScalar) {
    const std::string scalar = std::exchange(token_, {});
    const Json value = Json::parse(scalar, nullptr, /*allow_exceptions=*/false);
    out_.arguments(value.is_primitive() && !value.is_string() && !value.is_discarded() ? value.dump()
                                                                                       : json_string(scalar));
  }
  if (byte == ',') return emit(",", open_.back() == '{' ? Expect::kKey : Expect::kValue);
  open_.pop_back();
  emit(std::string(1, byte), Expect::kAfter);
  return open_.empty() ? State::kComplete : State::kMore;
}

State GemmaArguments::open(char bracket) {
  if (open_.size() == kDeepest) return State::kInvalid;
  open_ += bracket;
  return emit(std::string(1, bracket), bracket == '{' ? Expect::kKeyOrClose : Expect::kValueOrClose);
}

}  // namespace lockstep::serve
