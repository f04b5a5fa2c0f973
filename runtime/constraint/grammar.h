// Grammars for one vocabulary, and the tokens that they allow as bits. Private to this folder: the seam to xgrammar.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/constraint/format.h"
#include "runtime/core/result.h"
#include "runtime/text/tokenizer.h"

namespace lockstep::constraint {

/// The tokens of a model as a grammar needs them.
struct TokenTable {
  enum class Form : int32_t { kRaw, kByteLevel, kByteFallback };

  Form form = Form::kRaw;                  // how tokens encode bytes
  std::vector<std::string> tokens;         // [V] stored forms; empty: never allowed
  std::map<int32_t, std::string> special;  // allowed as text only where a constraint names them

  friend bool operator==(const TokenTable&, const TokenTable&) = default;
};

/// `vocabulary` is the model's: tokens beyond the tokenizer's are never allowed.
TokenTable token_table(const text::Tokenizer& tokenizer, int64_t vocabulary);

/// Fails with `kInvalidArgument` without one.
Result<void> check_end_tokens(const std::vector<int32_t>& end_tokens);

/// Numbers of 32 bits that hold one bit for each token.
inline size_t mask_words(size_t vocabulary) { return (vocabulary + 31) / 32; }

/// Sets the scores [V] of tokens without a bit to −inf. Fails with `kFailedPrecondition` when no finite score is left.
Result<void> apply_mask(std::span<const int32_t> bits, std::span<float> scores);

/// The place of one answer in a grammar.
class TokenMatcher {
 public:
  virtual ~TokenMatcher() = default;
  /// Sets the bits [mask_words] of the tokens that may follow.
  virtual Result<void> fill(std::span<int32_t> bits) = 0;
  /// Fails with `kFailedPrecondition` for a token that may not follow.
  virtual Result<void> accept(int32_t token) = 0;
  virtual bool has_ended() const = 0;
};

/// A compiled grammar. Immutable.
class Grammar {
 public:
  virtual ~Grammar() = default;
  virtual Result<std::unique_ptr<TokenMatcher>> begin(const std::vector<int32_t>& end_tokens) const = 0;
};

/// Used by one thread.
class GrammarCompiler {
 public:
  virtual ~GrammarCompiler() = default;

  /// Prepares the vocabulary with the special tokens that `format` names as text. Its cost does not depend on grammars.
  virtual void prepare(const CheckedFormat& format) = 0;
  /// Fails with `kInvalidArgument`. Neither time nor memory is bounded.
  virtual Result<std::unique_ptr<Grammar>> compile(const CheckedFormat& format) = 0;

  /// The number of tokens.
  virtual size_t vocabulary() const = 0;
};

/// Compiles `format` with its first mask, which can cost more than the rest. Fails with `kInvalidArgument` also for a
/// grammar that no text fits.
Result<std::unique_ptr<Grammar>> compile_and_try(GrammarCompiler& compiler, const CheckedFormat& format);

/// Fails with `kUnsupported` in a build without constraints.
Result<void> check_build();
/// Fails likewise.
Result<std::unique_ptr<GrammarCompiler>> make_grammar_compiler(TokenTable table);

}  // namespace lockstep::constraint
