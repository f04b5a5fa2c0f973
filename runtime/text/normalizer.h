// The first stage of encoding: rewrites a section of text.
#pragma once

#include <memory>
#include <string>

#include "runtime/core/result.h"
#include "runtime/text/json_field.h"

namespace lockstep::text {

/// Immutable; thread-safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// Rewrites `text`; input and result are well-formed UTF-8. Fails with `kResourceExhausted` when an expression
  /// backtracks too much.
  virtual Result<void> apply(std::string& text) const = 0;
};

/// Fails with `kUnsupported` on an unknown type, naming it.
Result<std::unique_ptr<Normalizer>> parse_normalizer(const JsonField& field);

}  // namespace lockstep::text
