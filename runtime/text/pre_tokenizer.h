// The second stage of encoding: cuts a stretch of text into the pieces that the model sees one by one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/text/json_field.h"

namespace lockstep::text {

/// What the model encodes by itself.
struct Piece {
  std::string text;
  bool begins_text = false;  // the first of the whole text that is being encoded
};

/// Immutable; thread-safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Replaces every piece by the pieces that it falls into. Fails with `kResourceExhausted` when an expression
  /// backtracks beyond all measure.
  virtual Result<void> split(std::vector<Piece>& pieces) const = 0;
};

/// Fails with `kUnsupported` on a type that is not known, naming it.
Result<std::unique_ptr<PreTokenizer>> parse_pre_tokenizer(const JsonField& field);

}  // namespace lockstep::text
