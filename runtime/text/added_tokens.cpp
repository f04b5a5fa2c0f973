#include "runtime/text/added_tokens.h"

#include <algorithm>
#include <unordered_set>

#include "runtime/text/unicode.h"

namespace lockstep::text {
namespace {

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  size_t at = previous_char(text, text.size());
  return is_word(next_char(text, at));
}

bool starts_with_word(std::string_view text) {
  size_t at = 0;
  return !text.empty() && is_word(next_char(text, at));
}

size_t leading_white_space(std::string_view text) {
  size_t end = 0;
  for (size_t at = 0; at < text.size();) {
    if (!is_white_space(next_char(text, at))) break;
    end = at;
  }
  return end;
}

/// The start of the white space at the end of `text`.
size_t trailing_white_space(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0) {
    const size_t before = previous_char(text, begin);
    size_t at = before;
    if (!is_white_space(next_char(text, at))) break;
    begin = before;
  }
  return begin;
}

}  // namespace

Result<AddedToken> parse_added_token(const JsonField& field) {
  AddedToken token;
  LOCKSTEP_TRY(const JsonField content, field.at("content"));
  LOCKSTEP_TRY(token.content, content.string());
  LOCKSTEP_TRY(token.special, field.boolean_or("special", false));
  LOCKSTEP_TRY(token.single_word, field.boolean_or("single_word", false));
  LOCKSTEP_TRY(token.lstrip, field.boolean_or("lstrip", false));
  LOCKSTEP_TRY(token.rstrip, field.boolean_or("rstrip", false));
  LOCKSTEP_TRY(token.normalized, field.boolean_or("normalized", !token.special));
  return token;
}

Result<std::vector<AddedToken>> parse_added_tokens(const JsonField& list) {
  LOCKSTEP_TRY(const auto fields, list.elements());
  std::vector<AddedToken> tokens;
  for (const JsonField& field : fields) {
    LOCKSTEP_TRY(AddedToken token, parse_added_token(field));
    LOCKSTEP_TRY(const JsonField id_field, field.at("id"));
    LOCKSTEP_TRY(const int64_t id, id_field.integer(0, kMaxIds - 1));
    token.id = static_cast<int32_t>(id);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

Result<AddedTokens> AddedTokens::make(std::vector<AddedToken> tokens, bool splits_special, const Vocabulary& vocabulary,
                                      const Normalizer* normalizer, const JsonField& list) {
  AddedTokens added;
  added.splits_special_ = splits_special;
  std::unordered_set<std::string> normalized;
  int32_t next = vocabulary.size();
  for (AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    if (token.normalized) normalized.insert(token.content);
    LOCKSTEP_TRY_VOID(added.add(std::move(token), list, vocabulary, next));
  }
  for (size_t i = 0; i < added.tokens_.size(); ++i) {
    AddedToken& token = added.tokens_[i];
    token.piece = token.content;
    if (normalizer != nullptr && normalized.contains(token.content)) LOCKSTEP_TRY_VOID(normalizer->apply(token.piece));
    const auto index = static_cast<int32_t>(i);
    if (token.normalized) {
      added.normalized_.add(token.piece, index);
    } else {
      added.raw_.add(token.content, index);
    }
  }
  return added;
}

Result<void> AddedTokens::add(AddedToken token, const JsonField& list, const Vocabulary& vocabulary, int32_t& next) {
  if (const auto entry = by_content_.find(token.content); entry != by_content_.end()) {
    AddedToken& before = tokens_[entry->second];
    token.id = before.id;
    token.special = token.special || before.special;
    before = std::move(token);
    return ok();
  }
  const auto id = vocabulary.id_of(token.content);
  token.id = id ? *id : next++;
  if (const auto known = vocabulary.token_of(token.id); known && *known != token.content) {
    return list.invalid(fmt::format("the id {} for \"{}\", which \"{}\" has", token.id, token.content, *known),
                        "a vocabulary without gaps");
  }
  end_ = std::max(end_, token.id + 1);
  by_id_[token.id] = tokens_.size();
  by_content_[token.content] = tokens_.size();
  tokens_.push_back(std::move(token));
  return ok();
}

const AddedToken* AddedTokens::find(int32_t id) const {
  const auto entry = by_id_.find(id);
  return entry == by_id_.end() ? nullptr : &tokens_[entry->second];
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto entry = by_content_.find(content);
  return entry == by_content_.end() ? nullptr : &tokens_[entry->second];
}

std::vector<Segment> AddedTokens::cut(const Trie& trie, std::string_view text) const {
  std::vector<Segment> segments;
  size_t done = 0;  // text before it is in `segments`
  for (size_t at = 0; at < text.size();) {
    size_t length = 0;
    int32_t index = 0;
    trie.for_each_prefix(text.substr(at), [&](size_t found, int32_t value) {  // the last match is the longest
      length = found;
      index = value;
    });
    if (length == 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[index];
    size_t begin = at;
    size_t end = at + length;
    at = end;
    if (splits_special_ && token.special) continue;
    if (token.single_word && (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) continue;
    if (token.lstrip) begin = std::max(done, trailing_white_space(text.substr(0, begin)));
    if (token.rstrip) end += leading_white_space(text.substr(end));
    if (begin > end) continue;  // all of it belongs to the token before; the tokenizers package panics here
    if (begin > done) segments.push_back({text.substr(done, begin - done), nullptr});
    if (begin < end) segments.push_back({text.substr(begin, end - begin), &token});
    done = end;  // also backwards, as in the package: "</s>\n a", rstrip, and the token "\n" give "\n a" after </s>
  }
  if (done < text.size()) segments.push_back({text.substr(done), nullptr});
  return segments;
}

}  // namespace lockstep::text
