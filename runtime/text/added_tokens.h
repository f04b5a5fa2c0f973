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
  std::string piece;         // the input of decoding: the content, normalised if `normalized`, now or in a duplicate
  bool single_word = false;  // matches only whole words
  bool lstrip = false;       // includes the white space before it
  bool rstrip = false;       // includes the white space after it
  bool normalized = false;
  bool special = false;
};

/// A token as tokenizer.json and tokenizer_config.json have it; the latter without an id.
Result<AddedToken> parse_added_token(const JsonField& field);
/// The list `added_tokens` of tokenizer.json, in its order.
Result<std::vector<AddedToken>> parse_added_tokens(const JsonField& list);

/// A section of text, or an added token found in it.
struct Segment {
  std::string_view text;
  const AddedToken* token = nullptr;
};

/// Immutable; thread-safe.
class AddedTokens {
 public:
  /// `normalizer` may be null. Tokens in `vocabulary` keep their id, the others are numbered from its size on, in the
  /// order of `tokens`: as in the tokenizers package, the ids of the file have no effect. Of two tokens with the same
  /// content the later one counts, but it stays special. With `splits_special`, special tokens are not found in texts.
  /// Fails with `kInvalidArgument`, naming `list`, where the vocabulary has gaps.
  static Result<AddedTokens> make(std::vector<AddedToken> tokens, bool splits_special, const Vocabulary& vocabulary,
                                  const Normalizer* normalizer, const JsonField& list);

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
  Result<void> add(AddedToken token, const JsonField& list, const Vocabulary& vocabulary, int32_t& next);

  std::vector<AddedToken> tokens_;
  std::unordered_map<int32_t, size_t> by_id_;
  std::unordered_map<std::string, size_t, StringHash, std::equal_to<>> by_content_;
  Trie raw_;  // values index tokens_
  Trie normalized_;
  int32_t end_ = 0;
  bool splits_special_ = false;
};

}  // namespace lockstep::text
