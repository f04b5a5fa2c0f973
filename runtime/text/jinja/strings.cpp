// String operations equal to Python's str.
#include <fmt/format.h>

#include "runtime/text/jinja/library.h"
#include "runtime/text/unicode.h"

namespace lockstep::jinja {
namespace {

bool belongs(char32_t c, const std::string* chars) {
  if (chars == nullptr) return text::is_white_space(c) || (c >= 0x1C && c <= 0x1F);
  for (size_t at = 0; at < chars->size();) {
    if (text::next_char(*chars, at) == c) return true;
  }
  return false;
}

bool is_cased(char32_t c) {
  std::string one;
  text::append_utf8(c, one);
  return text::to_lower(one) != one || text::to_upper(one) != one;
}

}  // namespace

const std::string& string_in(const Value& value) {
  if (value.string() == nullptr) throw RenderFailure(fmt::format("found a {}, expected a string", type_name(value)));
  return *value.string();
}

int64_t integer_in(const Value& value) {
  int64_t number = 0;
  if (!as_integer(value, number)) {
    throw RenderFailure(fmt::format("found a {}, expected an integer", type_name(value)));
  }
  return number;
}

const std::string& string_argument(const Arguments& arguments, size_t index, std::string_view name) {
  const Value* value = arguments.find(index, name);
  if (value == nullptr) throw RenderFailure(fmt::format("the argument {} is missing", name));
  return string_in(*value);
}

int64_t integer_argument(const Arguments& arguments, size_t index, std::string_view name, int64_t fallback) {
  const Value* value = arguments.find(index, name);
  return value == nullptr || value->is_none() ? fallback : integer_in(*value);
}

bool flag_argument(const Arguments& arguments, size_t index, std::string_view name, bool fallback) {
  const Value* value = arguments.find(index, name);
  return value == nullptr ? fallback : truthy(*value);
}

std::string strip_text(std::string_view text, const std::string* chars, Ends ends) {
  size_t begin = 0;
  size_t end = text.size();
  while (ends != Ends::kRight && begin < end) {
    size_t at = begin;
    if (!belongs(text::next_char(text, at), chars)) break;
    begin = at;
  }
  while (ends != Ends::kLeft && end > begin) {
    const size_t before = text::previous_char(text, end);
    size_t at = before;
    if (!belongs(text::next_char(text, at), chars)) break;
    end = before;
  }
  return std::string(text.substr(begin, end - begin));
}

std::vector<Value> split_text(std::string_view text, std::string_view separator, int64_t most) {
  if (separator.empty()) throw RenderFailure("the separator is empty");
  std::vector<Value> parts;
  size_t begin = 0;
  for (size_t at = text.find(separator); at != std::string_view::npos && most != 0; at = text.find(separator, begin)) {
    parts.emplace_back(text.substr(begin, at - begin));
    begin = at + separator.size();
    --most;
  }
  parts.emplace_back(text.substr(begin));
  return parts;
}

std::string replace_text(std::string_view text, std::string_view old, std::string_view by, int64_t most,
                         Budget& budget) {
  std::string out;
  size_t done = 0;
  const auto append = [&](std::string_view part) {
    budget.bytes(part.size() + 1);
    out += part;
  };
  while (most != 0) {
    size_t at = old.empty() ? done : text.find(old, done);
    if (at == std::string_view::npos || at > text.size()) break;
    append(text.substr(done, at - done));
    append(by);
    done = at + old.size();
    --most;
    if (!old.empty()) continue;
    if (done >= text.size()) break;  // "" matches between characters and at both ends
    size_t next = done;
    text::next_char(text, next);
    append(text.substr(done, next - done));
    done = next;
  }
  append(text.substr(std::min(done, text.size())));
  return out;
}

std::string capitalize(std::string_view text) {
  if (text.empty()) return {};
  size_t at = 0;
  text::next_char(text, at);
  return text::to_upper(text.substr(0, at)) + text::to_lower(text.substr(at));
}

std::string title_case(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = text::next_char(text, at);
    const auto one = text.substr(begin, at - begin);
    out += in_word ? text::to_lower(one) : text::to_upper(one);
    in_word = is_cased(c);
  }
  return out;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&#34;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

int64_t count_words(std::string_view text) {
  int64_t words = 0;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const bool is_word = text::is_word(text::next_char(text, at));
    if (is_word && !in_word) ++words;
    in_word = is_word;
  }
  return words;
}

}  // namespace lockstep::jinja
