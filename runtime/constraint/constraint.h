// Constraints on an answer (JSON schema, regex, grammar, tags) as masks of allowed tokens.
//
//   JSON text ──► Compiler ──► Constraint ──► Matcher, one per answer: mask ─► a token is chosen ─► accept ─► mask …
//                 (any thread)  (immutable, shared)
//
//   {"type": "json_schema", "json_schema": {…}}   {"type": "any_json"}   {"type": "regex", "pattern": "…"}
//   {"type": "grammar", "grammar": "EBNF"}        {"type": "const_string", "value": "…"}   {"type": "any_text"}
//   sequence, or, tag, tags_with_separator, triggered_tags: of these (README.md has the fields)
//
// JSON has at most kMostSpace white space characters between two of its tokens, so that no answer is endless space.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/text/tokenizer.h"

namespace lockstep::constraint {

inline constexpr int kMostSpace = 8;

/// The place of one answer in its constraint. Used by one thread.
class Matcher {
 public:
  virtual ~Matcher() = default;

  /// Sets the scores [V] of all tokens that may not follow to −inf. When the constraint is complete, only its end
  /// tokens and what may follow it remain. Fails with `kFailedPrecondition` when no token may follow.
  virtual Result<void> mask(std::span<float> scores) = 0;

  /// Goes on by one token. Fails with `kFailedPrecondition` for a token that may not follow.
  virtual Result<void> accept(int32_t token) = 0;

  /// Whether an end token was accepted.
  virtual bool has_ended() const = 0;
};

/// A compiled constraint. Immutable and thread-safe; shared by answers.
class Constraint {
 public:
  virtual ~Constraint() = default;

  /// A matcher at the start of an answer that ends with one of `end_tokens`, at least one.
  virtual Result<std::unique_ptr<Matcher>> begin(const std::vector<int32_t>& end_tokens) const = 0;
};

/// Compiles constraints for one tokenizer and keeps the latest. Thread-safe.
class Compiler {
 public:
  virtual ~Compiler() = default;

  /// Fails with `kInvalidArgument` for text that is no constraint or exceeds a limit, and with `kUnsupported` for a
  /// keyword that cannot be honoured, naming it. Takes up to seconds: call it beside the step's threads. @blocking
  virtual Result<std::shared_ptr<const Constraint>> compile(std::string_view json) = 0;

  /// Ends compilations under way where that is possible; later ones may fail. From any thread.
  virtual void stop() {}
};

/// Compiles in this process, one constraint at a time and without limits of time and memory; isolated_compiler.h has
/// them. Fails with `kUnsupported` in a build without constraints. `vocabulary` is the model's: tokens beyond the
/// tokenizer's are never allowed. The tokenizer is not kept.
Result<std::unique_ptr<Compiler>> make_compiler(const text::Tokenizer& tokenizer, int64_t vocabulary);

}  // namespace lockstep::constraint
