// Tokens found in the text before any other stage of encoding: control tokens such as <|im_start|>, and words added to
// a finished vocabulary.
//
//   "Hi <|im_start|>user"  ─►  "Hi " | <|im_start|> | "user"
//
// Tokens with `normalized` are searched after normalisation (and are normalised themselves), the others before it.
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
  std::string piece;         // the input of decoding: the content, normalised if `normalized`
  bool single_word = false;  // matches only whole words
  bool lstrip = false;       // includes the white space before it
  bool rstrip = false;       // includes the white space after it
  bool normalized = false;
  bool special = false;
};

/// A section of text, or an added token found in it.
struct Segment {
  std::string_view text;
  const AddedToken* token = nullptr;
};

/// Immutable; thread-safe.
class AddedTokens {
 public:
  /// Reads the list `added_tokens`. `normalizer` may be null. Tokens in `vocabulary` keep their id, the others are
  /// numbered from the size of `vocabulary` on, in the order of the list. As in the tokenizers package, the ids of the
  /// list have no effect.
  static Result<AddedTokens> parse(const JsonField& list, const Vocabulary& vocabulary, const Normalizer* normalizer);

  /// Cuts text before normalisation.
  std::vector<Segment> cut_raw(std::string_view text) const { return cut(raw_, text); }
  /// Cuts normalised text.
  std::vector<Segment> cut_normalized(std::string_view text) const { return cut(normalized_, text); }

  const AddedToken* find(int32_t id) const;
  const AddedToken* find(std::string_view content) const;
  /// One more than the largest id; 0 without tokens.
  int32_t end() const { return end_; }

 private:
  /// The segments are in order. A token that is white space, behind one with `rstrip`, is found in the white space that
  /// the other includes; the segments then overlap.
  std::vector<Segment> cut(const Trie& trie, std::string_view text) const;
  /// `next`: the id of a token outside the vocabulary, which it then counts up.
  Result<void> add(AddedToken token, const JsonField& field, const Vocabulary& vocabulary, int32_t& next);

  std::vector<AddedToken> tokens_;
  std::unordered_map<int32_t, size_t> by_id_;
  std::unordered_map<std::string, size_t, StringHash, std::equal_to<>> by_content_;
  Trie raw_;  // values index tokens_
  Trie normalized_;
  int32_t end_ = 0;
};

}  // namespace lockstep::text
