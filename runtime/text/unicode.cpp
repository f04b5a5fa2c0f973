#include "runtime/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "runtime/core/check.h"
#include "runtime/text/unicode_tables.h"

namespace lockstep::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// The length of a character with first byte `lead`; 0 when that is not a valid first byte.
size_t length_from_lead(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

/// Whether `byte` may follow `lead` at `position` (1 …): excludes overlong forms, surrogates and > U+10FFFF.
bool may_follow(uint8_t lead, size_t position, uint8_t byte) {
  if (position == 1) {
    if (lead == 0xE0) return byte >= 0xA0 && byte <= 0xBF;
    if (lead == 0xED) return byte >= 0x80 && byte <= 0x9F;
    if (lead == 0xF0) return byte >= 0x90 && byte <= 0xBF;
    if (lead == 0xF4) return byte >= 0x80 && byte <= 0x8F;
  }
  return (byte & 0xC0) == 0x80;
}

CharRange range_of(CharRange range) { return range; }
template <typename Entry>
CharRange range_of(const Entry& entry) {
  return entry.range;
}

/// The first of sorted `entries` that begins behind `c`.
template <typename Entry>
auto find_behind(std::span<const Entry> entries, char32_t c) {
  return std::ranges::upper_bound(entries, c, {}, [](const Entry& entry) { return range_of(entry).first; });
}

/// The entry of sorted `entries` with `c` in its range; null if there is none.
template <typename Entry>
const Entry* find_range(std::span<const Entry> entries, char32_t c) {
  const auto next = find_behind(entries, c);
  if (next == entries.begin() || c > range_of(*std::prev(next)).last) return nullptr;
  return &*std::prev(next);
}

utf8proc_category_t category(char32_t c) {
  const auto known = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  if (known != UTF8PROC_CATEGORY_CN) return known;
  const NewChars* chars = find_range(new_chars(), c);
  if (chars == nullptr) return known;
  constexpr std::string_view kNames = "CnLuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCo";  // in its order
  return static_cast<utf8proc_category_t>(kNames.find(chars->category) / 2);
}

bool is_exception(char32_t c, UnicodeUse use) { return find_range(exceptions(use), c) != nullptr; }

bool is_circled_letter(char32_t c) {  // alphabetic symbols
  return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
         (c >= 0x1F170 && c <= 0x1F189);
}

bool stays_whole(char32_t c, bool compat) {
  return c >= 0x80 &&
         (is_exception(c, UnicodeUse::kDecompose) || (compat && is_exception(c, UnicodeUse::kDecomposeCompatible)));
}

std::vector<utf8proc_int32_t> decompose(std::string_view text, int options) {
  std::vector<utf8proc_int32_t> chars;
  chars.reserve(text.size());
  utf8proc_int32_t parts[32];  // the longest decomposition has 18 characters
  for (size_t at = 0; at < text.size();) {
    const auto c = static_cast<utf8proc_int32_t>(next_char(text, at));
    if (stays_whole(static_cast<char32_t>(c), (options & UTF8PROC_COMPAT) != 0)) {
      chars.push_back(c);
      continue;
    }
    int boundary = 0;
    const auto count =
        utf8proc_decompose_char(c, parts, std::size(parts), static_cast<utf8proc_option_t>(options), &boundary);
    LOCKSTEP_CHECK(count > 0 && count <= static_cast<utf8proc_ssize_t>(std::size(parts)), count);
    chars.insert(chars.end(), parts, parts + count);
  }
  return chars;
}

/// Sorts each run of combining marks by combining class. utf8proc's own sort is quadratic in the run's length.
void order_marks(std::vector<utf8proc_int32_t>& chars) {
  const auto combining_class = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (auto run = chars.begin(); run != chars.end();) {
    run = std::find_if(run, chars.end(), [&](auto c) { return combining_class(c) != 0; });
    const auto end = std::find_if(run, chars.end(), [&](auto c) { return combining_class(c) == 0; });
    std::stable_sort(run, end, [&](auto a, auto b) { return combining_class(a) < combining_class(b); });
    run = end;
  }
}

}  // namespace

size_t find_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto lead = static_cast<uint8_t>(text[at]);
    const size_t length = length_from_lead(lead);
    if (length == 0 || at + length > text.size()) return at;
    for (size_t i = 1; i < length; ++i) {
      if (!may_follow(lead, i, static_cast<uint8_t>(text[at + i]))) return at;
    }
    at += length;
  }
  return std::string_view::npos;
}

char32_t next_char(std::string_view text, size_t& at) {
  const auto lead = static_cast<uint8_t>(text[at++]);
  if (lead < 0x80) return lead;
  const int more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  char32_t c = lead & (0x3F >> more);
  for (int i = 0; i < more; ++i) c = (c << 6) | (static_cast<uint8_t>(text[at++]) & 0x3F);
  return c;
}

size_t previous_char(std::string_view text, size_t end) {
  do {
    --end;
  } while ((static_cast<uint8_t>(text[end]) & 0xC0) == 0x80);
  return end;
}

void append_utf8(char32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

size_t count_chars(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  const auto kind = category(c);
  return c == 0x85 || kind == UTF8PROC_CATEGORY_ZS || kind == UTF8PROC_CATEGORY_ZL || kind == UTF8PROC_CATEGORY_ZP;
}

bool is_numeric(char32_t c) {
  const auto kind = category(c);
  return (kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO) ||
         (kind == UTF8PROC_CATEGORY_CN && is_exception(c, UnicodeUse::kDigits));
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) return (c > ' ' && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') || (c > 'z' && c < 0x7F);
  const auto kind = category(c);
  return (kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO) != is_exception(c, UnicodeUse::kPunctuation);
}

bool is_mark(char32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_MN && kind <= UTF8PROC_CATEGORY_ME;
}

bool is_accent(char32_t c) { return c >= 0x80 && is_mark(c) != is_exception(c, UnicodeUse::kStripAccents); }

bool is_word(char32_t c) {
  const auto kind = category(c);
  return (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_NL) || kind == UTF8PROC_CATEGORY_PC ||
         c == 0x200C || c == 0x200D || is_circled_letter(c);
}

bool has_new_chars(std::string_view text) {
  const std::span<const NewChars> added = new_chars();
  CharRange between{1, 0};  // known characters around the last one; usually the next one is among them
  for (size_t at = 0; at < text.size();) {
    if (static_cast<uint8_t>(text[at]) < 0xE0) {  // below U+0800, or inside a character
      ++at;
      continue;
    }
    const char32_t c = next_char(text, at);
    if (c >= between.first && c <= between.last) continue;
    const auto next = find_behind(added, c);
    const char32_t last_before = next == added.begin() ? 0 : std::prev(next)->range.last;
    if (c <= last_before) return true;
    between = {last_before + 1, next == added.end() ? 0x10FFFF : next->range.first - 1};
  }
  return false;
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_char(text, at);
    const LowerCase* newer = c < 0x80 ? nullptr : find_range(new_lower_cases(), c);
    append_utf8(newer != nullptr ? c + newer->offset
                                 : static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))),
                out);
    if (c == 0x130) append_utf8(0x307, out);  // İ: the only character with a lower case of two characters
  }
  return out;
}

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_char(text, at);
    if (c == 0xDF) {  // ß
      out += "SS";
    } else {
      append_utf8(static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))), out);
    }
  }
  return out;
}

std::string to_normal_form(std::string_view text, NormalForm form) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; })) {
    return std::string(text);
  }
  const bool compat = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  auto chars = decompose(text, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0));
  order_marks(chars);
  auto count = static_cast<utf8proc_ssize_t>(chars.size());
  if (form == NormalForm::kNfc || form == NormalForm::kNfkc) {
    count = utf8proc_normalize_utf32(chars.data(), count,
                                     static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    LOCKSTEP_CHECK(count >= 0, count);
  }
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < count; ++i) append_utf8(static_cast<char32_t>(chars[i]), out);
  return out;
}

void Utf8Assembler::put(std::string_view bytes, std::string& out) {
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    if (!pending_.empty()) {
      if (may_follow(static_cast<uint8_t>(pending_[0]), pending_.size(), byte)) {
        pending_ += c;
        if (pending_.size() == length_) {
          out += pending_;
          pending_.clear();
        }
        continue;
      }
      out += kReplacement;
      pending_.clear();
    }
    length_ = length_from_lead(byte);
    if (length_ == 1) {
      out += c;
    } else if (length_ == 0) {
      out += kReplacement;
    } else {
      pending_ += c;
    }
  }
}

void Utf8Assembler::finish(std::string& out) {
  if (!pending_.empty()) out += kReplacement;
  pending_.clear();
}

}  // namespace lockstep::text
