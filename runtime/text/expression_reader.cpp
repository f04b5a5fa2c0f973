#include "runtime/text/expression_reader.h"

#include <algorithm>
#include <charconv>

#include "runtime/text/unicode.h"

namespace lockstep::text {
namespace {

constexpr size_t kMaxRepeat = 5;  // digits

/// The hexadecimal digits that `text` begins with, at most `most`.
std::string_view hexadecimal(std::string_view text, size_t most) {
  const size_t end = text.find_first_not_of("0123456789ABCDEFabcdef");
  return text.substr(0, std::min({end, most, text.size()}));
}

std::optional<char32_t> code_point(std::string_view digits, int base) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size() || value > 0x10FFFF) return std::nullopt;
  if (value >= 0xD800 && value < 0xE000) return std::nullopt;
  return value;
}

/// The character of an escape by a letter, outside and inside brackets.
std::optional<char32_t> control(char letter) {
  switch (letter) {
    case 't': return '\t';
    case 'n': return '\n';
    case 'r': return '\r';
    case 'f': return '\f';
    case 'v': return '\v';
    case 'a': return '\a';
    case 'e': return 0x1B;
    default: return std::nullopt;
  }
}

NamedClass without_caret(std::string_view name, bool negated) {
  const bool caret = name.starts_with('^');
  return {std::string(name.substr(caret ? 1 : 0)), negated != caret};
}

}  // namespace

void ExpressionReader::skip(size_t bytes) { at_ = std::min(at_ + bytes, source_.size()); }

void ExpressionReader::skip_past(std::string_view text) {
  const size_t found = source_.find(text, at_);
  at_ = found == std::string_view::npos ? source_.size() : found + text.size();
}

std::string_view ExpressionReader::take(size_t bytes) {
  const size_t begin = at_;
  skip(bytes);
  return source_.substr(begin, at_ - begin);
}

char32_t ExpressionReader::next() { return next_char(source_, at_); }

std::optional<Interval> ExpressionReader::interval() const {
  const size_t end = source_.find('}', at_);
  if (peek() != '{' || end == std::string_view::npos) return std::nullopt;
  const auto inside = source_.substr(at_ + 1, end - at_ - 1);
  const auto comma = inside.find(',');
  const auto low = inside.substr(0, comma);
  const auto high = comma == std::string_view::npos ? low : inside.substr(comma + 1);
  const auto is_count = [](std::string_view text) {
    return text.size() <= kMaxRepeat && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (!is_count(low) || !is_count(high) || (low.empty() && high.empty())) return std::nullopt;
  Interval found{end + 1 - at_, std::string(low.empty() ? "0" : low), std::string(high)};
  found.exact = comma == std::string_view::npos;
  if (!high.empty() && std::stoi(found.low) > std::stoi(found.high)) {
    std::swap(found.low, found.high);
    found.possessive = true;
  }
  return found;
}

std::optional<OptionChange> ExpressionReader::option_group() const {
  if (!starts_with("(?")) return std::nullopt;
  const size_t end = source_.find_first_of(":)", at_ + 2);
  if (end == std::string_view::npos || end == at_ + 2) return std::nullopt;
  const auto letters = source_.substr(at_ + 2, end - at_ - 2);
  const auto is_option = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-'; };
  if (!std::all_of(letters.begin(), letters.end(), is_option)) return std::nullopt;
  return OptionChange{end + 1 - at_, std::string(letters), source_[end] == ':'};
}

std::string_view ExpressionReader::group_start() {
  size_t length = 1;
  if (peek(1) == '?') {
    const bool behind = peek(2) == '<' && (peek(3) == '=' || peek(3) == '!');
    const bool named = peek(2) == '<' && !behind;
    const size_t end = named ? source_.find('>', at_) : std::string_view::npos;
    length = behind ? 4 : end != std::string_view::npos ? end + 1 - at_ : 3;
  }
  return take(length);
}

std::optional<char32_t> ExpressionReader::char_escape(Place place) {
  const std::string_view rest = source_.substr(at_ + 1);
  if (peek() != '\\' || rest.empty()) return std::nullopt;
  const char c = rest[0];
  const auto read = [&](std::string_view digits, size_t length, int base) {
    const auto value = code_point(digits, base);
    if (value) skip(length + 1);
    return value;
  };
  if (rest.starts_with("x{")) {
    const auto digits = hexadecimal(rest.substr(2), 8);
    return rest.substr(2 + digits.size()).starts_with('}') ? read(digits, digits.size() + 3, 16) : std::nullopt;
  }
  if (c == 'x') {
    const auto digits = hexadecimal(rest.substr(1), 2);
    if (digits.size() == 2 && digits[0] >= '8') return std::nullopt;  // a byte of a character
    return read(digits, digits.size() + 1, 16);
  }
  if (c == 'u') {
    const auto digits = hexadecimal(rest.substr(1), 4);
    return digits.size() == 4 ? read(digits, 5, 16) : std::nullopt;
  }
  if (c == '0' || (place == Place::kInBrackets && c >= '1' && c <= '7')) {
    const auto digits = rest.substr(0, std::min<size_t>(rest.find_first_not_of("01234567"), 3));
    const auto value = code_point(digits, 8);
    return value && *value < 0x80 ? read(digits, digits.size(), 8) : std::nullopt;
  }
  auto value = place == Place::kInBrackets && c == 'b' ? std::optional<char32_t>(8) : control(c);
  const bool is_special =
      std::string_view("123456789cCMuxwWsSdDhH").find(c) != std::string_view::npos ||
      ((c == 'p' || c == 'P') && rest.substr(1).starts_with('{')) ||
      (place == Place::kOutside && std::string_view("bBAZzGRXNOKkgyY").find(c) != std::string_view::npos);
  if (!value && is_special) return std::nullopt;
  skip(1);
  const char32_t plain = next();
  return value ? *value : plain;
}

std::optional<char32_t> ExpressionReader::class_char() {
  if (at_end()) return std::nullopt;
  return peek() == '\\' ? char_escape(Place::kInBrackets) : next();
}

std::optional<NamedClass> ExpressionReader::property() {
  const size_t end = source_.find('}', at_);
  if (end == std::string_view::npos) return std::nullopt;
  const bool negated = peek(1) == 'P';
  const auto name = source_.substr(at_ + 3, end - at_ - 3);
  at_ = end + 1;
  return without_caret(name, negated);
}

std::optional<NamedClass> ExpressionReader::posix_bracket() {
  const size_t end = source_.find(":]", at_ + 2);
  if (!starts_with("[:") || end == std::string_view::npos) return std::nullopt;
  const auto name = source_.substr(at_ + 2, end - at_ - 2);
  if (name.find_first_not_of("^abcdefghijklmnopqrstuvwxyz") != std::string_view::npos) return std::nullopt;
  at_ = end + 2;
  return without_caret(name, false);
}

}  // namespace lockstep::text
