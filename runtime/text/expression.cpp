#include "runtime/text/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "runtime/text/char_class.h"
#include "runtime/text/expression_reader.h"

namespace lockstep::text {
namespace {

constexpr int kMaxNesting = 32;

/// Whether `c` has at most single characters as other cases, for the alphabets that expressions name.
bool has_simple_case(char32_t c) {
  if (c == 0xDF || c == 0x130 || c == 0x149 || c == 0x1F0) return false;
  return c < 0x250 || (c >= 0x400 && c < 0x530) || (c >= 0x2E80 && c < 0xFB00);
}

/// Whether a character exists that equals the two where case is ignored: ß, ﬀ, ﬁ, ﬂ or ﬆ.
bool has_ligature(char first, char second) {
  constexpr std::array<std::string_view, 5> kPairs = {"ss", "ff", "fi", "fl", "st"};
  const std::string pair = {static_cast<char>(first | 0x20), static_cast<char>(second | 0x20)};
  return std::find(kPairs.begin(), kPairs.end(), pair) != kPairs.end();
}

class Translator {
 public:
  Translator(std::string_view source, UnicodeVersion version) : reader_(source), version_(version) {}

  Result<std::string> run() {
    groups_.push_back({});
    while (!reader_.at_end() && !unsupported_) step();
    if (unsupported_) {
      return Error{ErrorKind::kUnsupported,
                   fmt::format("[runtime/text] cannot compile the expression {}: found {}, expected syntax that PCRE2 "
                               "reads like Oniguruma; check tokenizer.json",
                               reader_.source(), *unsupported_)};
    }
    return out_ + std::string(groups_.back().to_close, ')');
  }

 private:
  struct Options {
    bool ignore_case = false;
    bool extended = false;
  };
  struct Group {
    size_t begin = 0;     // in out_
    size_t to_close = 0;  // groups opened for options inside
    Options options;
  };

  void refuse(std::string what) {
    if (!unsupported_) unsupported_ = std::move(what);
  }
  Options options() const { return groups_.back().options; }

  void step() {
    const char c = reader_.peek();
    if (c == '*' || c == '+' || c == '?' || (c == '{' && reader_.interval())) return quantifier();
    if (c == '(') return open_group();
    if (c == ')') return close_group();
    if (options().extended && (c == ' ' || (c >= '\t' && c <= '\r'))) return reader_.skip(1);
    if (options().extended && c == '#') return reader_.skip_past("\n");
    const size_t begin = out_.size();
    if (c == '[') {
      last_literal_ = 0;
      out_ += read_class(0).expression();
    } else if (c == '\\') {
      escape();
    } else if (c == '|' || c == '.' || c == '^' || c == '$') {
      last_literal_ = 0;
      out_ += c;
      reader_.skip(1);
    } else {
      literal(reader_.next());
    }
    atom_ = begin;
    quantified_ = false;
  }

  void literal(char32_t c) {
    if (options().ignore_case && !has_simple_case(c)) refuse("a letter that ignores case and equals several letters");
    const char ascii = c < 0x80 ? static_cast<char>(c) : '\0';
    if (options().ignore_case && has_ligature(last_literal_, ascii)) {
      refuse(fmt::format("\"{}{}\" that ignores case: one letter equals both", last_literal_, ascii));
    }
    last_literal_ = ascii;
    out_ += literal_char(c);
  }

  void quantifier() {
    std::string text;
    if (const auto interval = reader_.interval()) {
      reader_.skip(interval->length);
      const bool fixed = interval->low == interval->high;
      text = fixed                    ? fmt::format("{{{}}}", interval->low)
             : interval->high.empty() ? fmt::format("{{{},}}", interval->low)
                                      : fmt::format("{{{},{}}}", interval->low, interval->high);
      if (interval->possessive)
        text += '+';
      else if (!interval->exact && reader_.starts_with("?"))
        text += reader_.take(1);
    } else {
      text = reader_.take(1);
      if (reader_.starts_with("?") || reader_.starts_with("+")) text += reader_.take(1);
    }
    if (quantified_) {
      out_.insert(atom_, "(?:");
      out_ += ')';
    }
    out_ += text;
    quantified_ = true;
  }

  void open_group() {
    if (reader_.starts_with("(?#")) return reader_.skip_past(")");
    if (const auto change = reader_.option_group()) return option_group(*change);
    const bool known =
        reader_.peek(1) != '*' &&
        (reader_.peek(1) != '?' || std::string_view(":=!><").find(reader_.peek(2)) != std::string_view::npos);
    if (!known) return refuse(fmt::format("the group {}", reader_.take(3)));
    groups_.push_back({out_.size(), 0, options()});
    out_ += reader_.group_start();
    quantified_ = false;
    atom_ = out_.size();
  }

  void option_group(const OptionChange& change) {
    if (change.letters.find_first_not_of("imx-") != std::string::npos)
      return refuse(fmt::format("(?{})", change.letters));
    Options inside = options();
    std::string letters;
    bool on = true;
    for (const char c : change.letters) {
      if (c == '-') on = false;
      if (c == 'i') inside.ignore_case = on;
      if (c == 'x') inside.extended = on;
      if (c != 'x') letters += c == 'm' ? 's' : c;  // white space is left out here
    }
    if (letters.ends_with('-')) letters.pop_back();
    reader_.skip(change.length);
    if (change.opens) {
      groups_.push_back({out_.size(), 0, inside});
    } else {
      groups_.back().options = inside;
      ++groups_.back().to_close;
    }
    out_ += fmt::format("(?{}:", letters);
    quantified_ = false;
    atom_ = out_.size();
  }

  void close_group() {
    reader_.skip(1);
    if (groups_.size() == 1) return refuse("a ) without its (");
    const Group group = groups_.back();
    groups_.pop_back();
    out_ += std::string(group.to_close + 1, ')');
    atom_ = group.begin;
    quantified_ = false;
  }

  void escape() {
    if (const auto c = reader_.char_escape(ExpressionReader::Place::kOutside)) return literal(*c);
    last_literal_ = 0;
    if (const auto named = class_escape()) {
      out_ += named->expression();
      return;
    }
    const char c = reader_.peek(1);
    const CharClass word = word_class(version_);
    if (c == 'w' || c == 'W') {
      out_ += (c == 'w' ? word : word.negated()).expression();
    } else if (c == 'b' || c == 'B') {
      const std::string w = word.expression();
      out_ += c == 'b' ? fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", w)
                       : fmt::format("(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", w);
    } else if (c == 'O') {
      out_ += "(?s:.)";
    } else if (c >= '1' && c <= '9') {
      if (reader_.peek(2) >= '0' && reader_.peek(2) <= '9') refuse("a number of two digits behind a backslash");
      out_ += fmt::format("\\g{{{}}}", c);
    } else if (std::string_view("ARGKNZzkg").find(c) != std::string_view::npos) {
      out_ += {'\\', c};
    } else {
      refuse(fmt::format("\\{}", c));
    }
    reader_.skip(2);
  }

  /// Reads a class that means the same inside and outside brackets; `nullopt` leaves the text unread.
  std::optional<CharClass> class_escape() {
    const char c = reader_.peek(1);
    if ((c == 'p' || c == 'P') && reader_.peek(2) == '{') {
      const auto property = reader_.property();
      if (!property) {
        refuse("\\p{ without its }");
        return CharClass();
      }
      if (options().ignore_case && depends_on_case(property->name)) {
        refuse(fmt::format("\\p{{{}}} that ignores case", property->name));
      }
      const CharClass named = property_class(property->name, version_);
      return property->negated ? named.negated() : named;
    }
    const std::string_view letters = "sShHdD";
    if (letters.find(c) == std::string_view::npos) return std::nullopt;
    reader_.skip(2);
    const CharClass named = c == 's' || c == 'S'   ? white_space_class()
                            : c == 'h' || c == 'H' ? hexadecimal_class()
                                                   : digit_class(version_);
    return c >= 'a' ? named : named.negated();
  }

  /// Reads from '[' to its ']'.
  CharClass read_class(int depth) {
    reader_.skip(1);
    const bool negated = reader_.starts_with("^");
    if (negated) reader_.skip(1);
    std::vector<CharClass> factors(1);
    for (bool first = true; !unsupported_ && (first || !reader_.starts_with("]")); first = false) {
      if (reader_.at_end()) {
        refuse("a [ without its ]");
        break;
      }
      read_item(factors, depth);
    }
    reader_.skip(1);
    const CharClass all = intersection(factors);
    return negated ? all.negated() : all;
  }

  void read_item(std::vector<CharClass>& factors, int depth) {
    CharClass& last = factors.back();
    if (const auto bracket = reader_.posix_bracket()) {
      const auto named = posix_class(bracket->name, version_);
      if (!named || (options().ignore_case && depends_on_case(bracket->name))) {
        return refuse(fmt::format("[:{}:]", bracket->name));
      }
      last.add(bracket->negated ? named->negated() : *named);
    } else if (reader_.starts_with("[")) {
      if (depth >= kMaxNesting) return refuse("brackets nested too deep");
      last.add(read_class(depth + 1));
    } else if (reader_.starts_with("&&")) {
      reader_.skip(2);
      factors.emplace_back();
    } else if (const auto c = reader_.class_char()) {
      read_range(*c, last);
    } else if (const auto named = class_escape()) {
      last.add(*named);
    } else if (reader_.starts_with("\\w") || reader_.starts_with("\\W")) {
      const CharClass word = word_in_brackets_class(version_);
      last.add(reader_.take(2) == "\\w" ? word : word.negated());
    } else {
      refuse(fmt::format("{} in brackets", reader_.take(2)));
    }
  }

  /// Reads the rest of a range that may begin with `first`.
  void read_range(char32_t first, CharClass& to) {
    char32_t end = first;
    if (reader_.starts_with("-") && !reader_.starts_with("-]") && !reader_.starts_with("-&&")) {
      reader_.skip(1);
      const auto read = reader_.starts_with("[") ? std::nullopt : reader_.class_char();
      if (!read || *read < first) return refuse("a - without its last character in brackets");
      end = *read;
    }
    for (char32_t c = first; options().ignore_case && c <= end; ++c) {
      if (!has_simple_case(c)) return refuse("brackets that ignore case and have a letter that equals several letters");
    }
    to.add(CharClass(end == first ? literal_char(first) : literal_char(first) + "-" + literal_char(end)));
  }

  static CharClass intersection(const std::vector<CharClass>& factors) {
    if (factors.size() == 1) return factors[0];
    std::string all;
    for (size_t i = 0; i + 1 < factors.size(); ++i) all += "(?=" + factors[i].expression() + ")";
    return CharClass::from_expression("(?:" + all + factors.back().expression() + ")");
  }

  ExpressionReader reader_;
  UnicodeVersion version_;
  std::string out_;
  std::vector<Group> groups_;
  size_t atom_ = 0;          // where the last atom begins in out_
  bool quantified_ = false;  // whether a quantifier follows it
  char last_literal_ = 0;    // 0 behind anything but a literal of ASCII
  std::optional<std::string> unsupported_;
};

}  // namespace

Result<std::string> to_pcre2(std::string_view expression, UnicodeVersion version) {
  return Translator(expression, version).run();
}

}  // namespace lockstep::text
