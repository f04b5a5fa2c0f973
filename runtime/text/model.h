// The third stage of encoding: the ids of one piece. Byte-pair encoding (bpe.cpp) and Unigram (unigram.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/text/json_field.h"
#include "runtime/text/merge_tables.h"
#include "runtime/text/vocabulary.h"

namespace lockstep::text {

/// Immutable; thread-safe.
class Model {
 public:
  virtual ~Model() = default;
  /// Appends the ids of `piece`, which is well-formed UTF-8. Fails with `kInvalidArgument` on a character that has no
  /// token where the model names an unknown token that it lacks, or lacks one that it needs.
  virtual Result<void> encode(std::string_view piece, std::vector<int32_t>& ids) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
};

/// The error for the character at the beginning of `text`; `expected` would give it a token.
Error no_token_for(std::string_view text, std::string_view expected);

/// `tables` are the vocabulary and the merges if they were read separately from `field`, else null.
Result<std::unique_ptr<Model>> parse_bpe(const JsonField& field, const MergeTables* tables);
Result<std::unique_ptr<Model>> parse_unigram(const JsonField& field);

/// Fails with `kUnsupported` on an unknown type, naming it.
Result<std::unique_ptr<Model>> parse_model(const JsonField& field, const MergeTables* tables);

}  // namespace lockstep::text
