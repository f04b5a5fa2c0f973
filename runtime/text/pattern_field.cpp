#include "runtime/text/pattern_field.h"

#include "runtime/text/unicode.h"

namespace lockstep::text {

Result<std::shared_ptr<const Pattern>> parse_pattern(const JsonField& field) {
  if (const auto text = field.find("String")) {
    LOCKSTEP_TRY(const std::string literal, text->string());
    return Pattern::literal(literal);
  }
  LOCKSTEP_TRY(const JsonField expression, field.at("Regex"));
  LOCKSTEP_TRY(const std::string source, expression.string());
  return Pattern::compile(source);
}

Result<std::string> replace_all(const Pattern& pattern, std::string_view text, std::string_view content) {
  if (text.empty()) return std::string();
  Pattern::Matcher matcher(pattern);
  LOCKSTEP_TRY(const auto matches, matcher.find_all(text));
  std::string out;
  out.reserve(text.size());
  size_t end = 0;
  for (const Span& match : matches) {
    out += text.substr(end, match.begin - end);
    out += content;
    end = match.end;
  }
  out += text.substr(end);
  return out;
}

Result<char32_t> parse_char(const JsonField& field) {
  LOCKSTEP_TRY(const std::string text, field.string());
  if (count_chars(text) != 1) return field.invalid(fmt::format("\"{}\"", text), "one character");
  size_t at = 0;
  return next_char(text, at);
}

}  // namespace lockstep::text
