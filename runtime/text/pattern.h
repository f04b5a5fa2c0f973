// Regular expressions over UTF-8 with Unicode properties. The only file of this folder that uses PCRE2.
//
// Expressions of tokenizer.json use Oniguruma's dialect and are translated first (expression.h). ^ and $ match at every
// line.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::text {

/// Bytes `[begin, end)` of a text.
struct Span {
  size_t begin = 0;
  size_t end = 0;

  friend bool operator==(const Span&, const Span&) = default;
};

/// A compiled expression. Immutable; thread-safe.
class Pattern {
 public:
  /// Fails with `kUnsupported` on an expression that PCRE2 rejects, naming the position in it.
  static Result<std::shared_ptr<const Pattern>> compile(std::string_view expression);
  /// Matches exactly `text`.
  static std::shared_ptr<const Pattern> literal(std::string_view text);
  ~Pattern();
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  /// Finds matches in any number of texts and reuses its working memory. Used by one thread; the pattern outlives it.
  class Matcher {
   public:
    explicit Matcher(const Pattern& pattern);
    ~Matcher();
    Matcher(const Matcher&) = delete;
    Matcher& operator=(const Matcher&) = delete;

    /// All matches in `text` (well-formed UTF-8), left to right, without overlap. Fails with `kResourceExhausted` when
    /// the expression backtracks too much.
    Result<std::vector<Span>> find_all(std::string_view text);

   private:
    struct Memory;
    const Pattern* pattern_;
    std::unique_ptr<Memory> memory_;
  };

 private:
  struct Code;
  Pattern();
  std::string literal_;  // used if code_ is null
  std::unique_ptr<Code> code_;
  std::unique_ptr<Code> newer_;  // for texts with characters that are newer than PCRE2
};

}  // namespace lockstep::text
