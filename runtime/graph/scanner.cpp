#include "runtime/graph/scanner.h"

#include <algorithm>
#include <charconv>

namespace lockstep::graph {
namespace {

// Not <cctype>: the meaning of a graph's text must not depend on the locale.
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }
bool is_bare(char c) { return is_word(c) || c == '.' || c == '-' || c == '/'; }
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

bool is_bare_name(std::string_view name) { return !name.empty() && std::all_of(name.begin(), name.end(), is_bare); }

std::string quoted(std::string_view text) {
  std::string written = "\"";
  for (char c : text) {
    if (is_control(c)) {
      written += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      if (c == '"' || c == '\\') written += '\\';
      written += c;
    }
  }
  return written + '"';
}

std::string written_name(std::string_view name) { return is_bare_name(name) ? std::string(name) : quoted(name); }

size_t Scanner::next() {
  while (offset_ < text_.size() && is_space(text_[offset_])) ++offset_;
  return offset_;
}

bool Scanner::at_word() { return next() < text_.size() && is_word(text_[offset_]); }

bool Scanner::accept(char symbol) {
  if (!at(symbol)) return false;
  ++offset_;
  return true;
}

Result<void> Scanner::expect(char symbol) {
  if (accept(symbol)) return ok();
  return unexpected(fmt::format("\"{}\"", symbol));
}

Result<void> Scanner::expect_word(std::string_view wanted) {
  const size_t start = next();
  const std::string expected = fmt::format("\"{}\"", wanted);
  LOCKSTEP_TRY(const std::string_view found, word(expected));
  if (found != wanted) return unexpected(expected, start);
  return ok();
}

Result<std::string_view> Scanner::word(std::string_view expected) {
  const size_t start = next();
  while (offset_ < text_.size() && is_word(text_[offset_])) ++offset_;
  if (offset_ == start) return unexpected(expected, start);
  return text_.substr(start, offset_ - start);
}

Result<std::string> Scanner::name() {
  const size_t start = next();
  if (at('"')) return quoted_text();
  while (offset_ < text_.size() && is_bare(text_[offset_])) ++offset_;
  if (offset_ == start) return unexpected("a name", start);
  return std::string(text_.substr(start, offset_ - start));
}

Result<std::string> Scanner::quoted_text() {
  LOCKSTEP_TRY_VOID(expect('"'));
  std::string contents;
  while (offset_ < text_.size()) {
    const char c = text_[offset_++];
    if (c == '"') return contents;
    if (c != '\\') {
      contents += c;
      continue;
    }
    const std::string_view rest = text_.substr(offset_);
    if (rest.starts_with('"') || rest.starts_with('\\')) {
      contents += rest[0];
      ++offset_;
    } else if (rest.size() >= 3 && rest[0] == 'x' && hex_digit(rest[1]) >= 0 && hex_digit(rest[2]) >= 0) {
      contents += static_cast<char>(hex_digit(rest[1]) * 16 + hex_digit(rest[2]));
      offset_ += 3;
    } else {
      return unexpected("one of \\\" \\\\ \\x00", offset_ - 1);
    }
  }
  return unexpected("a closing \"", offset_);
}

template <typename Number>
Result<Number> Scanner::read_number(std::string_view expected) {
  const size_t start = next();
  Number number{};
  const char* const end_of_text = text_.data() + text_.size();
  const auto [end, failure] = std::from_chars(text_.data() + start, end_of_text, number);
  if (failure != std::errc{} || (end != end_of_text && is_bare(*end))) return unexpected(expected, start);
  offset_ = static_cast<size_t>(end - text_.data());
  return number;
}

Result<int64_t> Scanner::integer() { return read_number<int64_t>("an integer of 64 bits"); }
Result<double> Scanner::number() { return read_number<double>("a number"); }
Result<float> Scanner::float32() { return read_number<float>("a number that fits f32"); }

Error Scanner::unexpected(std::string_view expected, size_t offset) const {
  constexpr size_t kLongest = 24;
  const std::string_view before = text_.substr(0, offset);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  const std::string_view rest = text_.substr(offset);
  size_t length = std::min<size_t>(rest.size(), 1);
  while (length < std::min(rest.size(), kLongest) && is_bare(rest[0]) && is_bare(rest[length])) ++length;
  const std::string found = rest.empty() ? "the end" : quoted(rest.substr(0, length));
  return {ErrorKind::kInvalidArgument,
          fmt::format("[graph] line {}, column {}: found {}, expected {}; correct the text", line,
                      offset - line_start + 1, found, expected)};
}

}  // namespace lockstep::graph
