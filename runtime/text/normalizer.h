// The first stage of encoding: rewrites a stretch of text.
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
  /// Rewrites `text`, which is and stays well-formed UTF-8. Fails with `kResourceExhausted` when an expression
  /// backtracks beyond all measure.
  virtual Result<void> apply(std::string& text) const = 0;
};

/// Fails with `kUnsupported` on a type that is not known, naming it.
Result<std::unique_ptr<Normalizer>> parse_normalizer(const JsonField& field);

}  // namespace lockstep::text
