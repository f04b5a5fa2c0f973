#include "runtime/text/expression.h"

#include <vector>

namespace lockstep::text {
namespace {

constexpr std::string_view kWhiteSpace = R"(\t-\r \x{85}\p{Z})";  // items of a class
constexpr std::string_view kHexadecimal = "0-9A-Fa-f";
constexpr int kMaxNesting = 32;

/// A character class as a union of plain items and of single-character expressions.
struct Union {
  std::string items;
  std::vector<std::string> expressions;

  std::string expression() const {
    std::vector<std::string> all = expressions;
    if (!items.empty()) all.insert(all.begin(), "[" + items + "]");
    if (all.size() == 1) return all[0];
    std::string text = "(?:";
    for (size_t i = 0; i < all.size(); ++i) text += (i > 0 ? "|" : "") + all[i];
    return text + ")";
  }
};

class Translator {
 public:
  explicit Translator(std::string_view source) : source_(source) {}

  std::string run() {
    std::string out;
    size_t atom = 0;  // start of the last atom or closed quantifier
    while (at_ < source_.size()) {
      const size_t begin = out.size();
      const char c = source_[at_];
      if (c == '[') {
        out += read_class(0).expression();
      } else if (c == '\\') {
        out += escape();
      } else if (c == '{' && interval() > 0) {
        const size_t length = interval();
        out += source_.substr(at_, length);
        at_ += length;
        if (at_ < source_.size() && source_[at_] == '+' && atom_is_closed_) {
          out.insert(atom, "(?:");
          out += ")";
        }
        continue;  // the atom stays
      } else {
        out += c;
        ++at_;
      }
      atom = begin;
      atom_is_closed_ = c != ')';
    }
    return out;
  }

 private:
  /// Length of "{1,3}" or "{2}" at the current position; 0 when there is none.
  size_t interval() const {
    const size_t end = source_.find('}', at_);
    if (end == std::string_view::npos || end == at_ + 1) return 0;
    const auto inside = source_.substr(at_ + 1, end - at_ - 1);
    return inside.find_first_not_of("0123456789,") == std::string_view::npos ? end - at_ + 1 : 0;
  }

  /// Reads \p{…} or \x{…} completely; other escapes are two characters.
  std::string_view raw_escape() {
    const size_t begin = at_;
    at_ = std::min(at_ + 2, source_.size());
    if (at_ < source_.size() && source_[at_] == '{' &&
        (source_[at_ - 1] == 'p' || source_[at_ - 1] == 'P' || source_[at_ - 1] == 'x')) {
      const size_t end = source_.find('}', at_);
      if (end != std::string_view::npos) at_ = end + 1;
    }
    return source_.substr(begin, at_ - begin);
  }

  std::string escape() {
    const std::string_view raw = raw_escape();
    if (raw == R"(\s)") return "[" + std::string(kWhiteSpace) + "]";
    if (raw == R"(\S)") return "[^" + std::string(kWhiteSpace) + "]";
    if (raw == R"(\h)") return "[" + std::string(kHexadecimal) + "]";
    if (raw == R"(\H)") return "[^" + std::string(kHexadecimal) + "]";
    return std::string(raw);
  }

  /// Reads from '[' to its ']'.
  Union read_class(int depth) {
    ++at_;
    const bool negated = at_ < source_.size() && source_[at_] == '^';
    if (negated) ++at_;
    std::vector<Union> factors(1);
    for (bool first = true; at_ < source_.size() && (first || source_[at_] != ']'); first = false) {
      read_item(factors, depth);
    }
    ++at_;  // the ']'; if it is missing, PCRE2 rejects the unclosed translation
    return close(factors, negated);
  }

  void read_item(std::vector<Union>& factors, int depth) {
    Union& last = factors.back();
    const std::string_view rest = source_.substr(at_);
    if (rest.starts_with("[:") && rest.find(":]") != std::string_view::npos) {
      const size_t length = rest.find(":]") + 2;
      last.items += rest.substr(0, length);
      at_ += length;
    } else if (rest[0] == '[' && depth < kMaxNesting) {
      Union nested = read_class(depth + 1);
      last.items += nested.items;
      for (auto& expression : nested.expressions) last.expressions.push_back(std::move(expression));
    } else if (rest.starts_with("&&")) {
      factors.emplace_back();
      at_ += 2;
    } else if (rest[0] == '\\') {
      const std::string_view raw = raw_escape();
      if (raw == R"(\S)" || raw == R"(\H)") {
        last.expressions.push_back("[^" + std::string(raw == R"(\S)" ? kWhiteSpace : kHexadecimal) + "]");
      } else {
        last.items += raw == R"(\s)" ? kWhiteSpace : raw == R"(\h)" ? kHexadecimal : raw;
      }
    } else {
      if (rest[0] == '[' || rest[0] == ']') last.items += '\\';
      last.items += rest[0];
      ++at_;
    }
  }

  static Union close(const std::vector<Union>& factors, bool negated) {
    if (factors.size() == 1 && !negated) return factors[0];
    if (factors.size() == 1 && factors[0].expressions.empty()) return {"", {"[^" + factors[0].items + "]"}};
    std::string all;
    for (size_t i = 0; i < factors.size(); ++i) {
      const std::string factor = factors[i].expression();
      all += i + 1 < factors.size() ? "(?=" + factor + ")" : factor;
    }
    return {"", {negated ? "(?:(?!" + all + ")(?s:.))" : "(?:" + all + ")"}};
  }

  std::string_view source_;
  size_t at_ = 0;
  bool atom_is_closed_ = false;
};

}  // namespace

std::string to_pcre2(std::string_view expression) { return Translator(expression).run(); }

}  // namespace lockstep::text
