#include "runtime/text/char_class.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/text/unicode.h"
#include "runtime/text/unicode_tables.h"

namespace lockstep::text {
namespace {

struct Category {
  std::string_view short_name;
  std::string_view long_name;
};

// Names without case, spaces, - and _, as both libraries compare them.
constexpr auto kCategories = std::to_array<Category>({
    {"l", "letter"},
    {"lu", "uppercaseletter"},
    {"ll", "lowercaseletter"},
    {"lt", "titlecaseletter"},
    {"lm", "modifierletter"},
    {"lo", "otherletter"},
    {"m", "mark"},
    {"mn", "nonspacingmark"},
    {"mc", "spacingmark"},
    {"me", "enclosingmark"},
    {"n", "number"},
    {"nd", "decimalnumber"},
    {"nl", "letternumber"},
    {"no", "othernumber"},
    {"p", "punctuation"},
    {"pc", "connectorpunctuation"},
    {"pd", "dashpunctuation"},
    {"ps", "openpunctuation"},
    {"pe", "closepunctuation"},
    {"pi", "initialpunctuation"},
    {"pf", "finalpunctuation"},
    {"po", "otherpunctuation"},
    {"s", "symbol"},
    {"sm", "mathsymbol"},
    {"sc", "currencysymbol"},
    {"sk", "modifiersymbol"},
    {"so", "othersymbol"},
    {"z", "separator"},
    {"zs", "spaceseparator"},
    {"zl", "lineseparator"},
    {"zp", "paragraphseparator"},
    {"c", "other"},
    {"cc", "control"},
    {"cf", "format"},
    {"cn", "unassigned"},
    {"co", "privateuse"},
});

// Characters of Unicode 14 that have the property since.
constexpr std::string_view kAddedAlphabetic =
    R"(\x{363}-\x{36F}\x{C04}\x{F82}\x{F83}\x{1DD3}-\x{1DE6}\x{11080}\x{11081})";
constexpr std::string_view kAddedLowercase = R"(\x{10FC}\x{A7F2}-\x{A7F4}\x{AB69})";

std::string loose(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c != ' ' && c != '-' && c != '_') out += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return out;
}

/// The category that the loose name `key` names; null: none.
const Category* find_category(std::string_view key) {
  const auto found = std::ranges::find_if(
      kCategories, [&](const Category& one) { return key == one.short_name || key == one.long_name; });
  return found == kCategories.end() ? nullptr : &*found;
}

/// The name in brackets of the property with the loose name `key`, if it has one.
std::string_view bracket_name(std::string_view key) {
  if (key == "alphabetic") return "alpha";
  if (key == "lowercase") return "lower";
  if (key == "uppercase") return "upper";
  return key == "whitespace" ? "space" : key;
}

void append_range(CharRange range, std::string& items) {
  items += range.first == range.last ? fmt::format("\\x{{{:X}}}", static_cast<uint32_t>(range.first))
                                     : fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", static_cast<uint32_t>(range.first),
                                                   static_cast<uint32_t>(range.last));
}

/// The ranges of new characters with `wanted`, as items of a bracket; neighbours joined.
template <typename Wanted>
std::string items_of_new(UnicodeVersion version, Wanted wanted) {
  if (version == UnicodeVersion::k14) return {};
  std::string items;
  CharRange run{1, 0};
  for (const NewChars& chars : new_chars()) {
    if (!wanted(chars)) continue;
    if (run.first <= run.last && chars.range.first != run.last + 1) append_range(run, items);
    run.first = run.first <= run.last && chars.range.first == run.last + 1 ? run.first : chars.range.first;
    run.last = chars.range.last;
  }
  if (run.first <= run.last) append_range(run, items);
  return items;
}

/// Of a short name of kCategories.
CharClass category_class(std::string_view name, UnicodeVersion version) {
  const auto is_in = [&](std::string_view category) { return loose(category).starts_with(name); };
  const std::string old = fmt::format("\\p{{{}{}}}", static_cast<char>(name[0] - 'a' + 'A'), name.substr(1));
  const std::string gone = items_of_new(version, [&](const NewChars& c) { return is_in(c.was) && !is_in(c.category); });
  CharClass all = gone.empty() ? CharClass(old) : CharClass::from_expression(fmt::format("(?:(?![{}]){})", gone, old));
  all.add(CharClass(items_of_new(version, [&](const NewChars& c) { return is_in(c.category) && !is_in(c.was); })));
  return all;
}

/// Alphabetic, Lowercase or Uppercase, each of which has its first letter as the flag.
CharClass flag_class(std::string_view property, UnicodeVersion version) {
  const char flag = static_cast<char>(property[0] - 'A' + 'a');
  const std::string_view added = flag == 'a' ? kAddedAlphabetic : flag == 'l' ? kAddedLowercase : "";
  return CharClass(fmt::format("\\p{{{}}}{}", property, added) + items_of_new(version, [&](const NewChars& c) {
                     return c.flags.find(flag) != std::string_view::npos;
                   }));
}

CharClass script_class(std::string_view name, UnicodeVersion version) {
  const std::string wanted = loose(name);
  return CharClass(fmt::format("\\p{{sc:{}}}", name) + items_of_new(version, [&](const NewChars& c) {
                     return !c.script.empty() && (loose(c.script) == wanted || loose(c.short_script) == wanted);
                   }));
}

CharClass joined(std::initializer_list<CharClass> parts) {
  CharClass all;
  for (const CharClass& part : parts) all.add(part);
  return all;
}

}  // namespace

CharClass CharClass::from_expression(std::string expression) {
  CharClass one;
  one.expressions_.push_back(std::move(expression));
  return one;
}

/// PCRE2 matches a property faster than a bracket with it.
bool CharClass::is_property() const {
  return expressions_.empty() && items_.starts_with("\\p{") && items_.find('}') == items_.size() - 1;
}

void CharClass::add(const CharClass& other) {
  items_ += other.items_;
  expressions_.insert(expressions_.end(), other.expressions_.begin(), other.expressions_.end());
}

CharClass CharClass::negated() const {
  if (items_.empty() && expressions_.empty()) return from_expression("(?s:.)");
  if (is_property()) return from_expression("\\P" + items_.substr(2));
  if (expressions_.empty()) return from_expression("[^" + items_ + "]");
  return from_expression("(?:(?!" + expression() + ")(?s:.))");
}

std::string CharClass::expression() const {
  if (items_.empty() && expressions_.empty()) return "(?!)";
  if (is_property()) return items_;
  if (expressions_.empty()) return "[" + items_ + "]";
  if (items_.empty() && expressions_.size() == 1) return expressions_[0];
  std::string text = "(?:" + (items_.empty() ? "" : "[" + items_ + "]|");
  for (size_t i = 0; i < expressions_.size(); ++i) text += (i > 0 ? "|" : "") + expressions_[i];
  return text + ")";
}

CharClass white_space_class() { return CharClass(R"(\t-\r \x{85}\p{Z})"); }  // PCRE2's \s has U+180E as well

CharClass hexadecimal_class() { return CharClass("0-9A-Fa-f"); }

CharClass digit_class(UnicodeVersion version) { return category_class("nd", version); }

CharClass word_in_brackets_class(UnicodeVersion version) {
  return joined({flag_class("Alphabetic", version), category_class("m", version), digit_class(version),
                 category_class("pc", version)});
}

CharClass word_class(UnicodeVersion version) {
  return joined({word_in_brackets_class(version), CharClass(R"(\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})")});
}

CharClass property_class(std::string_view name, UnicodeVersion version) {
  const std::string key = loose(name);
  if (const Category* category = find_category(key)) return category_class(category->short_name, version);
  if (key == "punct") return category_class("p", version);
  if (key == "word") return word_class(version);
  if (key == "any") return CharClass().negated();
  if (key == "assigned") return category_class("cn", version).negated();
  return posix_class(bracket_name(key), version).value_or(script_class(name, version));
}

std::optional<CharClass> posix_class(std::string_view name, UnicodeVersion version) {
  if (name == "alnum") return joined({flag_class("Alphabetic", version), digit_class(version)});
  if (name == "alpha") return flag_class("Alphabetic", version);
  if (name == "ascii") return CharClass(R"(\x00-\x7F)");
  if (name == "blank") return CharClass(R"(\t\p{Zs})");
  if (name == "cntrl") return CharClass(R"(\p{Cc})");
  if (name == "digit") return digit_class(version);
  if (name == "graph") return joined({CharClass(R"(\p{Z}\p{Cc}\p{Cs})"), category_class("cn", version)}).negated();
  if (name == "lower") return flag_class("Lowercase", version);
  if (name == "print")
    return joined({CharClass(R"(\p{Zl}\p{Zp}\p{Cc}\p{Cs})"), category_class("cn", version)}).negated();
  if (name == "punct") return joined({category_class("p", version), category_class("s", version)});
  if (name == "space") return white_space_class();
  if (name == "upper") return flag_class("Uppercase", version);
  if (name == "xdigit") return hexadecimal_class();
  if (name == "word") return word_in_brackets_class(version);
  return std::nullopt;
}

bool depends_on_case(std::string_view name) {
  const std::string key = loose(name);
  if (find_category(key) != nullptr) return key[0] == 'l' && key != "l" && key != "letter";
  const std::string_view bracket = bracket_name(key);
  if (bracket == "lower" || bracket == "upper") return true;
  constexpr auto kWithoutCase =
      std::to_array<std::string_view>({"any", "assigned", "han", "hangul", "hiragana", "katakana"});
  return std::ranges::find(kWithoutCase, key) == kWithoutCase.end() && !posix_class(bracket, UnicodeVersion::k14);
}

std::string literal_char(char32_t c) {
  const bool alphanumeric = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  std::string out;
  if (alphanumeric || c >= 0x80) {
    append_utf8(c, out);
  } else if (c <= ' ' || c == 0x7F) {
    out = fmt::format("\\x{{{:X}}}", static_cast<uint32_t>(c));  // also where white space is ignored
  } else {
    out = {'\\', static_cast<char>(c)};
  }
  return out;
}

}  // namespace lockstep::text
