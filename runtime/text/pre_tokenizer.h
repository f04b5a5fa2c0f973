// The second stage of encoding: cuts text into pieces for the model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/text/json_field.h"

namespace lockstep::text {

/// A section of text that the model encodes separately.
struct Piece {
  std::string text;
  bool begins_text = false;  // the first piece of the whole text
};

/// Immutable; thread-safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Replaces every piece by its parts. Fails with `kResourceExhausted` when an expression backtracks too much.
  virtual Result<void> split(std::vector<Piece>& pieces) const = 0;
  /// What it puts before the first piece of a text alone, as Metaspace with the prepend_scheme "first" does.
  virtual std::vector<std::string> start_marks() const { return {}; }
};

/// Fails with `kUnsupported` on an unknown type, naming it.
Result<std::unique_ptr<PreTokenizer>> parse_pre_tokenizer(const JsonField& field);

}  // namespace lockstep::text
