// Tokens that are found in the text before anything else happens to it: control tokens such as <|im_start|>, and words
// that were added to a finished vocabulary.
//
//   "Hi <|im_start|>user"  ─►  "Hi " | <|im_start|> | "user"
//
// Tokens with `normalized` are looked for after normalisation (and are normalised themselves), the others before it.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/text/json_field.h"
#include "runtime/text/normalizer.h"
#include "runtime/text/trie.h"
#include "runtime/text/vocabulary.h"

namespace lockstep::text {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  std::string piece;         // what decoding starts from: the content, normalised where `normalized` says so
  bool single_word = false;  // not inside a word
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and behind it
  bool normalized = false;
  bool special = false;
};

/// A stretch of text, or an added token that was found.
struct Segment {
  std::string_view text;
  const AddedToken* token = nullptr;
};

/// Immutable once parsed; thread-safe.
class AddedTokens {
 public:
  /// Reads the list `added_tokens`. `normalizer` may be null. Tokens that `vocabulary` holds keep their id there.
  static Result<AddedTokens> parse(const JsonField& list, const Vocabulary& vocabulary, const Normalizer* normalizer);

  /// Cuts text that is not yet normalised.
  std::vector<Segment> cut_raw(std::string_view text) const { return cut(raw_, text); }
  /// Cuts normalised text.
  std::vector<Segment> cut_normalized(std::string_view text) const { return cut(normalized_, text); }

  const AddedToken* find(int32_t id) const;
  const AddedToken* find(std::string_view content) const;
  /// One more than the largest id; 0 when there are none.
  int32_t end() const { return end_; }

 private:
  std::vector<Segment> cut(const Trie& trie, std::string_view text) const;
  Result<void> add(AddedToken token, const JsonField& field, const Vocabulary& vocabulary);

  std::vector<AddedToken> tokens_;
  std::unordered_map<int32_t, size_t> by_id_;
  std::unordered_map<std::string, size_t, StringHash, std::equal_to<>> by_content_;
  Trie raw_;  // values index tokens_
  Trie normalized_;
  int32_t end_ = 0;
};

}  // namespace lockstep::text
