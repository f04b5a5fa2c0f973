// String operations equal to Python's str.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "runtime/text/jinja/library.h"
#include "runtime/text/unicode.h"

namespace lockstep::jinja {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

/// Formats and private characters (general categories Cf and Co), and characters that are none.
constexpr Range kNotPrintable[] = {{0xAD, 0xAD},       {0x600, 0x605},     {0x61C, 0x61C},     {0x6DD, 0x6DD},
                                   {0x70F, 0x70F},     {0x890, 0x891},     {0x8E2, 0x8E2},     {0x180E, 0x180E},
                                   {0x200B, 0x200F},   {0x202A, 0x202E},   {0x2060, 0x206F},   {0xE000, 0xF8FF},
                                   {0xFDD0, 0xFDEF},   {0xFEFF, 0xFEFF},   {0xFFF0, 0xFFFB},   {0xFFFE, 0xFFFF},
                                   {0x110BD, 0x110BD}, {0x110CD, 0x110CD}, {0x13430, 0x13438}, {0x1BCA0, 0x1BCA3},
                                   {0x1D173, 0x1D17A}, {0x40000, 0xE00FF}, {0xE01F0, 0x10FFFF}};

/// Digits that are no decimal ones: superscripts, circled ones and the like.
constexpr Range kOtherDigits[] = {{0xB2, 0xB3},       {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},
                                  {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
                                  {0x2474, 0x247C},   {0x2488, 0x2490},   {0x24EA, 0x24EA},   {0x24F5, 0x24FD},
                                  {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},   {0x278A, 0x2792},
                                  {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}};

/// Numbers that are written as letters (general category Nl).
constexpr Range kLetterNumbers[] = {{0x16EE, 0x16F0},   {0x2160, 0x2182},   {0x2185, 0x2188},   {0x3007, 0x3007},
                                    {0x3021, 0x3029},   {0x3038, 0x303A},   {0xA6E6, 0xA6EF},   {0x10140, 0x10174},
                                    {0x10341, 0x10341}, {0x1034A, 0x1034A}, {0x103D1, 0x103D5}, {0x12400, 0x1246E}};

/// Letters whose upper case has several characters, each after a blank and before its upper case (without ß).
constexpr std::string_view kSeveralInUpperCase =
    " \u0149\u02BCN \u01F0J\u030C \u0390\u0399\u0308\u0301 \u03B0\u03A5\u0308\u0301 \u0587\u0535\u0552"
    " \u1E96H\u0331 \u1E97T\u0308 \u1E98W\u030A \u1E99Y\u030A \u1E9AA\u02BE \u1F50\u03A5\u0313"
    " \u1F52\u03A5\u0313\u0300 \u1F54\u03A5\u0313\u0301 \u1F56\u03A5\u0313\u0342 \u1F80\u1F08\u0399"
    " \u1F81\u1F09\u0399 \u1F82\u1F0A\u0399 \u1F83\u1F0B\u0399 \u1F84\u1F0C\u0399 \u1F85\u1F0D\u0399"
    " \u1F86\u1F0E\u0399 \u1F87\u1F0F\u0399 \u1F88\u1F08\u0399 \u1F89\u1F09\u0399 \u1F8A\u1F0A\u0399"
    " \u1F8B\u1F0B\u0399 \u1F8C\u1F0C\u0399 \u1F8D\u1F0D\u0399 \u1F8E\u1F0E\u0399 \u1F8F\u1F0F\u0399"
    " \u1F90\u1F28\u0399 \u1F91\u1F29\u0399 \u1F92\u1F2A\u0399 \u1F93\u1F2B\u0399 \u1F94\u1F2C\u0399"
    " \u1F95\u1F2D\u0399 \u1F96\u1F2E\u0399 \u1F97\u1F2F\u0399 \u1F98\u1F28\u0399 \u1F99\u1F29\u0399"
    " \u1F9A\u1F2A\u0399 \u1F9B\u1F2B\u0399 \u1F9C\u1F2C\u0399 \u1F9D\u1F2D\u0399 \u1F9E\u1F2E\u0399"
    " \u1F9F\u1F2F\u0399 \u1FA0\u1F68\u0399 \u1FA1\u1F69\u0399 \u1FA2\u1F6A\u0399 \u1FA3\u1F6B\u0399"
    " \u1FA4\u1F6C\u0399 \u1FA5\u1F6D\u0399 \u1FA6\u1F6E\u0399 \u1FA7\u1F6F\u0399 \u1FA8\u1F68\u0399"
    " \u1FA9\u1F69\u0399 \u1FAA\u1F6A\u0399 \u1FAB\u1F6B\u0399 \u1FAC\u1F6C\u0399 \u1FAD\u1F6D\u0399"
    " \u1FAE\u1F6E\u0399 \u1FAF\u1F6F\u0399 \u1FB2\u1FBA\u0399 \u1FB3\u0391\u0399 \u1FB4\u0386\u0399"
    " \u1FB6\u0391\u0342 \u1FB7\u0391\u0342\u0399 \u1FBC\u0391\u0399 \u1FC2\u1FCA\u0399 \u1FC3\u0397\u0399"
    " \u1FC4\u0389\u0399 \u1FC6\u0397\u0342 \u1FC7\u0397\u0342\u0399 \u1FCC\u0397\u0399"
    " \u1FD2\u0399\u0308\u0300 \u1FD3\u0399\u0308\u0301 \u1FD6\u0399\u0342 \u1FD7\u0399\u0308\u0342"
    " \u1FE2\u03A5\u0308\u0300 \u1FE3\u03A5\u0308\u0301 \u1FE4\u03A1\u0313 \u1FE6\u03A5\u0342"
    " \u1FE7\u03A5\u0308\u0342 \u1FF2\u1FFA\u0399 \u1FF3\u03A9\u0399 \u1FF4\u038F\u0399 \u1FF6\u03A9\u0342"
    " \u1FF7\u03A9\u0342\u0399 \u1FFC\u03A9\u0399 \uFB00FF \uFB01FI \uFB02FL \uFB03FFI \uFB04FFL \uFB05ST"
    " \uFB06ST \uFB13\u0544\u0546 \uFB14\u0544\u0535 \uFB15\u0544\u053B \uFB16\u054E\u0546 \uFB17\u0544\u053D";

template <size_t kSize>
bool is_in(char32_t c, const Range (&ranges)[kSize]) {
  return std::any_of(std::begin(ranges), std::end(ranges), [&](Range r) { return c >= r.first && c <= r.last; });
}

bool belongs(char32_t c, const std::string* chars) {
  if (chars == nullptr) return is_space(c);
  for (size_t at = 0; at < chars->size();) {
    if (text::next_char(*chars, at) == c) return true;
  }
  return false;
}

bool is_cased(char32_t c) {
  std::string one;
  text::append_utf8(c, one);
  return text::to_lower(one) != one || upper_case(one) != one;
}

/// Whether the condition of a final sigma ignores `c`: marks, and punctuation inside of words.
bool is_ignored_by_case(char32_t c) {
  constexpr std::u32string_view kInWords =
      U"'.:^`\u00A8\u00AD\u00AF\u00B4\u00B7\u00B8\u2018\u2019\u2024\u2027\u200B\u200C\u200D";
  return text::is_mark(c) || kInWords.find(c) != std::u32string_view::npos;
}

/// Whether the capital sigma in `[begin, end)` ends a word: then its lower case is ς.
bool is_final_sigma(std::string_view text, size_t begin, size_t end) {
  bool follows_letter = false;
  while (begin > 0 && !follows_letter) {
    begin = text::previous_char(text, begin);
    size_t at = begin;
    const char32_t c = text::next_char(text, at);
    if (is_ignored_by_case(c)) continue;
    if (!is_cased(c)) return false;
    follows_letter = true;
  }
  while (end < text.size()) {
    const char32_t c = text::next_char(text, end);
    if (!is_ignored_by_case(c)) return follows_letter && !is_cased(c);
  }
  return follows_letter;
}

/// The lower case of `[begin, end)` inside of `text`.
std::string lower_part(std::string_view text, size_t begin, size_t end) {
  constexpr std::string_view kSigma = "\u03A3";
  std::string out;
  while (begin < end) {
    const size_t sigma = std::min(text.find(kSigma, begin), end);
    out += text::to_lower(text.substr(begin, sigma - begin));
    begin = sigma;
    if (begin >= end) break;
    begin += kSigma.size();
    out += is_final_sigma(text, sigma, begin) ? "\u03C2" : "\u03C3";
  }
  return out;
}

/// The upper case of one character where it has several; else empty.
std::string_view several_in_upper_case(char32_t c, std::string_view one) {
  if (c < 0x149 || (c > 0x587 && c < 0x1E96) || (c > 0x1FFC && c < 0xFB00) || c > 0xFB17) return {};
  const size_t at = kSeveralInUpperCase.find(std::string(" ").append(one));
  if (at == std::string_view::npos) return {};
  const auto upper = kSeveralInUpperCase.substr(at + 1 + one.size());
  return upper.substr(0, upper.find(' '));
}

/// The first letter of a word in title case.
std::string title_letter(char32_t c, std::string_view one) {
  std::string out;
  if ((c >= 0x1C4 && c <= 0x1CC) || (c >= 0x1F1 && c <= 0x1F3)) {  // letters of two, such as Dž
    text::append_utf8(c < 0x1F1 ? 0x1C5 + (c - 0x1C4) / 3 * 3 : 0x1F2, out);
    return out;
  }
  if (c >= 0x10D0 && c <= 0x10FF) return std::string(one);  // Georgian has no title case
  const std::string upper = upper_case(one);
  size_t first = 0;
  text::next_char(upper, first);
  return c == 0x149 ? upper : upper.substr(0, first) + text::to_lower(std::string_view(upper).substr(first));
}

}  // namespace

bool is_space(char32_t c) { return text::is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

bool is_printable(char32_t c) {
  if (c < 0xA1) return c >= ' ' && c < 0x7F;
  return !text::is_white_space(c) && !is_in(c, kNotPrintable) && (c & 0xFFFE) != 0xFFFE;
}

bool is_digit(char32_t c) {
  return is_in(c, kOtherDigits) || (text::is_numeric(c) && text::is_word(c) && !is_in(c, kLetterNumbers));
}

bool is_alpha(char32_t c) {
  const bool is_symbol = c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F189);
  return text::is_word(c) && !text::is_numeric(c) && !text::is_mark(c) && !text::is_punctuation(c) && !is_symbol;
}

void check_arguments(std::string_view of, std::string_view names, const Arguments& arguments) {
  if (names == "*") return;
  std::vector<std::string_view> known;
  for (size_t at = 0; at < names.size();) {
    const size_t end = std::min(names.find(' ', at), names.size());
    known.push_back(names.substr(at, end - at));
    at = end + 1;
  }
  if (arguments.positional.size() > known.size()) {
    throw RenderFailure(
        fmt::format("found {} arguments of {}, expected at most {}", arguments.positional.size(), of, known.size()));
  }
  for (const auto& argument : arguments.named) {
    const auto at = std::find(known.begin(), known.end(), argument.first) - known.begin();
    if (at < static_cast<ptrdiff_t>(known.size()) && at >= static_cast<ptrdiff_t>(arguments.positional.size()))
      continue;
    throw RenderFailure(
        fmt::format("found the argument {} of {}, which is unknown or given twice", argument.first, of));
  }
}

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

std::vector<Value> split_lines(std::string_view text, bool keeps_ends) {
  const auto ends_line = [](char32_t c) {
    return (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
  };
  std::vector<Value> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = text::next_char(text, at);
    if (!ends_line(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.emplace_back(text.substr(begin, (keeps_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

std::string lower_case(std::string_view text) { return lower_part(text, 0, text.size()); }

std::string upper_case(std::string_view text) {
  std::string out;
  size_t begin = 0;  // of the text that is not written yet
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = text::next_char(text, at);
    const auto several = several_in_upper_case(c, text.substr(end, at - end));
    if (several.empty()) continue;
    out += text::to_upper(text.substr(begin, end - begin));
    out += several;
    begin = at;
  }
  return out + text::to_upper(text.substr(begin));
}

bool is_in_case(std::string_view text, bool is_upper) {
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    text::next_char(text, at);
    const auto one = text.substr(begin, at - begin);
    const bool changes_to_lower = text::to_lower(one) != one;
    const bool changes_to_upper = upper_case(one) != one;
    if (is_upper ? changes_to_upper : changes_to_lower) return false;
    found = found || changes_to_lower || changes_to_upper;
  }
  return found;
}

std::string capitalize(std::string_view text) {
  if (text.empty()) return {};
  size_t at = 0;
  const char32_t c = text::next_char(text, at);
  return title_letter(c, text.substr(0, at)) + lower_part(text, at, text.size());
}

std::string title_case(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = text::next_char(text, at);
    out += in_word ? lower_part(text, begin, at) : title_letter(c, text.substr(begin, at - begin));
    in_word = is_cased(c);
  }
  return out;
}

std::string title_words(std::string_view text) {
  const auto separates = [](char32_t c) {
    return is_space(c) || (c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) != std::string_view::npos);
  };
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    const char32_t first = text::next_char(text, end);
    const size_t second = end;
    while (end < text.size()) {
      size_t next = end;
      if (separates(text::next_char(text, next)) != separates(first)) break;
      end = next;
    }
    out += upper_case(text.substr(begin, second - begin)) + lower_case(text.substr(second, end - second));
    begin = end;
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
