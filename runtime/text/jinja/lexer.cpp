#include "runtime/text/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/text/unicode.h"

namespace lockstep::jinja {
namespace {

using Kind = Token::Kind;

constexpr std::array<std::string_view, 27> kOperators = {  // longer ones first
    "**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<", ">",
    "=",  "(",  ")",  "[",  "]",  "{",  "}", ",", ".", ":", "|", ";", "!"};

/// Normalises newlines: \r\n and \r become \n, and a single one at the end is removed.
std::string with_unix_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

size_t trimmed_end(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    const size_t before = text::previous_char(text, end);
    size_t at = before;
    if (!text::is_white_space(text::next_char(text, at))) break;
    end = before;
  }
  return end;
}

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) LOCKSTEP_TRY_VOID(text_then_tag());
    tokens_.push_back({Kind::kEnd, "", line_});
    return std::move(tokens_);
  }

 private:
  Error fail(std::string_view what) const { return template_error(ErrorKind::kInvalidArgument, line_, what); }

  std::string_view rest() const { return std::string_view(source_).substr(at_); }

  void advance(size_t bytes) {
    line_ += static_cast<int>(std::count(source_.begin() + at_, source_.begin() + at_ + bytes, '\n'));
    at_ += bytes;
  }

  void skip_white_space() {
    while (at_ < source_.size()) {
      size_t next = at_;
      if (!text::is_white_space(text::next_char(source_, next))) return;
      advance(next - at_);
    }
  }

  void add_text(size_t end) {
    if (end > at_) tokens_.push_back({Kind::kText, source_.substr(at_, end - at_), line_});
  }

  Result<void> text_then_tag() {
    const size_t begin = at_;
    size_t open = source_.find('{', at_);
    while (open != std::string::npos &&
           (open + 1 >= source_.size() || std::string_view("{%#").find(source_[open + 1]) == std::string_view::npos)) {
      open = source_.find('{', open + 1);
    }
    if (open == std::string::npos) {
      add_text(source_.size());
      advance(source_.size() - at_);
      return ok();
    }
    const char kind = source_[open + 1];
    const char sign = open + 2 < source_.size() ? source_[open + 2] : '\0';
    const auto before = std::string_view(source_).substr(begin, open - begin);
    size_t end = open;
    if (sign == '-') {
      end = begin + trimmed_end(before);
    } else if (sign != '+' && kind != '{') {
      end = begin + without_indent(before);
    }
    add_text(end);
    advance(open - at_);
    if (kind == '#') return comment();
    advance(sign == '-' || (sign == '+' && kind == '%') ? 3 : 2);
    if (kind == '%' && is_raw()) return raw();
    tokens_.push_back({kind == '%' ? Kind::kBlockBegin : Kind::kPrintBegin, "", line_});
    return inside(kind == '%' ? "%}" : "}}");
  }

  /// The size of `before`, the text from the current position to a tag, without white space at the tag's line start.
  size_t without_indent(std::string_view before) const {
    const size_t newline = before.rfind('\n');
    const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
    const bool begins_line = newline != std::string_view::npos || at_ == 0 || source_[at_ - 1] == '\n';
    return begins_line && trimmed_end(before.substr(start)) == 0 ? start : before.size();
  }

  /// Skips what `-` or trim_blocks removes after the closing delimiter.
  void after_tag(bool strip, bool keep, bool is_print) {
    if (strip) {
      skip_white_space();
    } else if (!keep && !is_print && rest().starts_with('\n')) {
      advance(1);
    }
  }

  Result<void> comment() {
    const size_t end = source_.find("#}", at_ + 2);
    if (end == std::string::npos) return fail("a comment has no end: expected #}");
    const char sign = source_[end - 1];
    advance(end + 2 - at_);
    after_tag(sign == '-', sign == '+', false);
    return ok();
  }

  /// Whether the tag at the current position is {% raw %}; consumes nothing.
  bool is_raw() const {
    const auto text = rest();
    const size_t word = text.find_first_not_of(" \t\n");
    if (word == std::string_view::npos || !text.substr(word).starts_with("raw")) return false;
    const size_t close = text.find_first_not_of(" \t\n", word + 3);
    return close != std::string_view::npos &&
           (text.substr(close).starts_with("%}") || text.substr(close).starts_with("-%}"));
  }

  Result<void> raw() {
    const size_t close = source_.find("%}", at_);
    const bool strip = source_[close - 1] == '-';
    advance(close + 2 - at_);
    after_tag(strip, /*keep=*/true, false);
    for (size_t open = source_.find("{%", at_); open != std::string::npos; open = source_.find("{%", open + 1)) {
      size_t word = open + 2;
      const bool strip_before = word < source_.size() && source_[word] == '-';
      const bool keep_before = word < source_.size() && source_[word] == '+';
      if (strip_before || keep_before) ++word;
      word = std::min(source_.find_first_not_of(" \t\n", word), source_.size());
      if (!std::string_view(source_).substr(word).starts_with("endraw")) continue;
      size_t end = std::min(source_.find_first_not_of(" \t\n", word + 6), source_.size());
      const bool strip_after = end < source_.size() && source_[end] == '-';
      const bool keep_after = end < source_.size() && source_[end] == '+';
      if (strip_after || keep_after) ++end;
      if (!std::string_view(source_).substr(end).starts_with("%}")) continue;
      const auto body = std::string_view(source_).substr(at_, open - at_);
      add_text(at_ + (strip_before ? trimmed_end(body) : keep_before ? body.size() : without_indent(body)));
      advance(end + 2 - at_);
      after_tag(strip_after, keep_after, false);
      return ok();
    }
    return fail("a raw block has no end: expected {% endraw %}");
  }

  /// The tokens of a tag up to its end.
  Result<void> inside(std::string_view close) {
    std::string open;  // unmatched brackets
    while (true) {
      skip_white_space();
      if (at_ >= source_.size()) return fail(fmt::format("a tag has no end: expected {}", close));
      if (open.empty() && at_tag_end(close)) return ok();
      const char c = source_[at_];
      if (c == '"' || c == '\'') {
        LOCKSTEP_TRY_VOID(string());
      } else if (is_digit(c)) {
        number();
      } else if (is_name_start(c)) {
        size_t end = at_;
        while (end < source_.size() && (is_name_start(source_[end]) || is_digit(source_[end]))) ++end;
        push(Kind::kName, end - at_);
      } else {
        LOCKSTEP_TRY_VOID(punctuation(open));
      }
    }
  }

  bool at_tag_end(std::string_view close) {
    const bool is_print = close == "}}";
    const char sign = rest()[0];
    const bool has_sign = sign == '-' || (sign == '+' && !is_print);
    if (!rest().substr(has_sign ? 1 : 0).starts_with(close)) return false;
    tokens_.push_back({is_print ? Kind::kPrintEnd : Kind::kBlockEnd, "", line_});
    advance(close.size() + (has_sign ? 1 : 0));
    after_tag(has_sign && sign == '-', has_sign && sign == '+', is_print);
    return true;
  }

  void push(Kind kind, size_t bytes) {
    tokens_.push_back({kind, source_.substr(at_, bytes), line_});
    advance(bytes);
  }

  Result<void> punctuation(std::string& open) {
    for (const auto op : kOperators) {
      if (!rest().starts_with(op)) continue;
      if (op == "(" || op == "[" || op == "{") open += op == "(" ? ')' : op == "[" ? ']' : '}';
      if (op == ")" || op == "]" || op == "}") {
        if (open.empty() || open.back() != op[0]) return fail(fmt::format("found {}, which nothing opened", op));
        open.pop_back();
      }
      push(Kind::kOperator, op.size());
      return ok();
    }
    return fail(fmt::format("found the character '{}', expected an expression", source_[at_]));
  }

  void number() {
    size_t end = at_;
    const auto digits = [&] {
      while (end < source_.size() && (is_digit(source_[end]) || source_[end] == '_')) ++end;
    };
    digits();
    bool is_float = false;
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      is_float = true;
      ++end;
      digits();
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
      if (exponent < source_.size() && is_digit(source_[exponent])) {
        is_float = true;
        end = exponent;
        digits();
      }
    }
    push(is_float ? Kind::kFloat : Kind::kInteger, end - at_);
    std::erase(tokens_.back().text, '_');
  }

  Result<void> string() {
    const char quote = source_[at_];
    size_t end = at_ + 1;
    std::string value;
    while (end < source_.size() && source_[end] != quote) {
      if (source_[end] != '\\') {
        value += source_[end++];
        continue;
      }
      LOCKSTEP_TRY(end, escape(end + 1, value));
    }
    if (end >= source_.size()) return fail("a string has no end");
    tokens_.push_back({Kind::kString, std::move(value), line_});
    advance(end + 1 - at_);
    return ok();
  }

  /// Python's escapes; `at` is after the backslash. Returns the position after the escape.
  Result<size_t> escape(size_t at, std::string& value) const {
    if (at >= source_.size()) return fail("a string has no end");
    const char c = source_[at];
    constexpr std::string_view kNames = "nrtabfv\\'\"";
    constexpr std::string_view kValues = "\n\r\t\a\b\f\v\\'\"";
    if (const size_t i = kNames.find(c); i != std::string_view::npos) {
      value += kValues[i];
      return at + 1;
    }
    if (c == '\n') return at + 1;
    if (c == 'N') return fail("a string has an escape by name, expected \\u and the character's number");
    int base = 16;
    size_t most = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    size_t begin = at + 1;
    if (c >= '0' && c <= '7') {
      base = 8;
      most = 3;
      begin = at;
    } else if (most == 0) {  // unknown: unchanged
      value += {'\\', c};
      return at + 1;
    }
    const auto is_digit_of_base = [&](char d) {
      return (d >= '0' && d < '0' + std::min(base, 10)) ||
             (base == 16 && std::string_view("abcdefABCDEF").find(d) != std::string_view::npos);
    };
    size_t end = begin;
    while (end < source_.size() && end < begin + most && is_digit_of_base(source_[end])) ++end;
    if (base == 16 && end != begin + most) return fail("a string has a broken escape");
    const auto code = static_cast<char32_t>(std::stoul(source_.substr(begin, end - begin), nullptr, base));
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
      return fail("a string has an escape that is no character");
    text::append_utf8(code, value);
    return end;
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

Error template_error(ErrorKind kind, int line, std::string_view what) {
  return {kind, fmt::format("[runtime/text] chat template, line {}: {}", line, what)};
}

Result<std::vector<Token>> tokenize(std::string_view source) {
  if (const size_t offset = text::find_invalid_utf8(source); offset != std::string_view::npos) {
    const auto line = 1 + std::count(source.begin(), source.begin() + static_cast<ptrdiff_t>(offset), '\n');
    return template_error(ErrorKind::kInvalidArgument, static_cast<int>(line), "found bytes that are not UTF-8");
  }
  return Lexer(with_unix_newlines(source)).run();
}

}  // namespace lockstep::jinja
