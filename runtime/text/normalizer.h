// The first stage of encoding: rewrites a section of text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

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
  /// Whether the result may begin later in the original text and so lack the `mark` of a beginning.
  virtual bool may_remove_start([[maybe_unused]] std::string_view mark) const { return false; }
};

/// Fails with `kUnsupported` on an unknown type, naming it, and on a step that may remove the beginning of a text if
/// the pre-tokenizer has `start_marks`: the tokenizers package then adds none, because the first piece does not begin
/// at the original offset 0. Offsets are not computed here.
Result<std::unique_ptr<Normalizer>> parse_normalizer(const JsonField& field,
                                                     const std::vector<std::string>& start_marks);

}  // namespace lockstep::text
