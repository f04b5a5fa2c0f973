// Byte-pair encoding (Sennrich et al., 2016). A piece starts as its characters, and the best-ranked pair of neighbours
// is merged until none is left. With a heap of candidate pairs over a linked list this takes O(n log n):
//
//   l o w e r      heap: (rank 3, "l"+"o") (rank 7, "e"+"r")
//   └─┘            pop the best; if both sides are unchanged, merge them
//   lo  w e r      push the new pairs: ("lo"+"w")
#include <algorithm>
#include <queue>

#include "runtime/text/model.h"
#include "runtime/text/unicode.h"

namespace lockstep::text {
namespace {

struct Merge {
  int32_t rank = 0;
  int32_t result = 0;
};

uint64_t pair_key(int32_t left, int32_t right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

using Merges = std::unordered_map<uint64_t, Merge>;

struct BpeOptions {
  std::string continuing_prefix;  // before every character except the first, in the vocabulary
  std::string end_suffix;         // after the last character
  std::optional<int32_t> unknown;
  std::string missing_unknown;  // the name of an unknown token that the vocabulary lacks
  bool fuse_unknown = false;
  bool byte_fallback = false;
  bool ignore_merges = false;  // a piece that is a token is not split
};

/// A piece during encoding: a list of symbols, merged in place.
class Word {
 public:
  void add(int32_t id) {
    const auto at = static_cast<int32_t>(symbols_.size());
    if (at > 0) symbols_.back().next = at;
    symbols_.push_back({id, at - 1, -1, true});
  }

  void merge_all(const Merges& merges) {
    for (size_t i = 0; i + 1 < symbols_.size(); ++i) consider(merges, static_cast<int32_t>(i));
    while (!candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      Symbol& left = symbols_[best.at];
      if (!left.alive || left.next < 0) continue;
      Symbol& right = symbols_[left.next];
      const auto merge = merges.find(pair_key(left.id, right.id));
      if (merge == merges.end() || merge->second.result != best.result) continue;  // the pair no longer exists
      right.alive = false;
      left.id = best.result;
      left.next = right.next;
      if (left.next >= 0) symbols_[left.next].previous = best.at;
      if (left.previous >= 0) consider(merges, left.previous);
      if (left.next >= 0) consider(merges, best.at);
    }
  }

  void append_to(std::vector<int32_t>& ids) const {
    for (const Symbol& symbol : symbols_) {
      if (symbol.alive) ids.push_back(symbol.id);
    }
  }

 private:
  struct Symbol {
    int32_t id = 0;
    int32_t previous = -1;
    int32_t next = -1;
    bool alive = true;
  };
  struct Candidate {
    int32_t rank = 0;
    int32_t at = 0;  // of the left symbol
    int32_t result = 0;
    bool operator<(const Candidate& other) const {  // the top of the heap: lowest rank, then leftmost
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };

  void consider(const Merges& merges, int32_t at) {
    const Symbol& left = symbols_[at];
    const auto merge = merges.find(pair_key(left.id, symbols_[left.next].id));
    if (merge != merges.end()) candidates_.push({merge->second.rank, at, merge->second.result});
  }

  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> candidates_;
};

class Bpe final : public Model {
 public:
  Bpe(Vocabulary vocabulary, Merges merges, BpeOptions options)
      : vocabulary_(std::move(vocabulary)),
        merges_(std::move(merges)),
        options_(std::move(options)),
        byte_tokens_(vocabulary_.byte_tokens()) {}

  const Vocabulary& vocabulary() const override { return vocabulary_; }

  Result<void> encode(std::string_view piece, std::vector<int32_t>& ids) const override {
    if (options_.ignore_merges) {
      if (const auto id = vocabulary_.id_of(piece)) {
        ids.push_back(*id);
        return ok();
      }
    }
    Word word;
    LOCKSTEP_TRY_VOID(add_characters(piece, word));
    word.merge_all(merges_);
    word.append_to(ids);
    return ok();
  }

 private:
  /// Without any unknown token, a character that has no token is left out, as in the tokenizers package.
  Result<void> add_characters(std::string_view piece, Word& word) const {
    bool unknown_pending = false;  // may be fused with the next unknown character
    std::string dressed;
    for (size_t at = 0; at < piece.size();) {
      const size_t begin = at;
      next_char(piece, at);
      std::string_view symbol = piece.substr(begin, at - begin);
      if (!options_.continuing_prefix.empty() || !options_.end_suffix.empty()) {
        dressed = begin > 0 ? options_.continuing_prefix : std::string();
        dressed += symbol;
        if (at == piece.size()) dressed += options_.end_suffix;
        symbol = dressed;
      }
      if (const auto id = vocabulary_.id_of(symbol)) {
        if (unknown_pending) word.add(*options_.unknown);
        unknown_pending = false;
        word.add(*id);
      } else if (options_.byte_fallback && all_bytes_known(symbol)) {
        for (const char byte : symbol) word.add(byte_tokens_[static_cast<uint8_t>(byte)]);
      } else if (options_.unknown) {
        if (unknown_pending && !options_.fuse_unknown) word.add(*options_.unknown);
        unknown_pending = true;
      } else if (!options_.missing_unknown.empty()) {
        return no_token_for(piece.substr(begin), fmt::format("the token \"{}\" (model.unk_token) in the vocabulary",
                                                             options_.missing_unknown));
      }
    }
    if (unknown_pending) word.add(*options_.unknown);
    return ok();
  }

  bool all_bytes_known(std::string_view symbol) const {
    return std::all_of(symbol.begin(), symbol.end(),
                       [&](char byte) { return byte_tokens_[static_cast<uint8_t>(byte)] >= 0; });
  }

  Vocabulary vocabulary_;
  Merges merges_;
  BpeOptions options_;
  std::vector<int32_t> byte_tokens_;
};

struct MergePair {
  std::string left;
  std::string right;
};

/// ["a", "b"], or "a b" in older files.
Result<MergePair> parse_pair(const JsonField& list, size_t index) {
  const nlohmann::json& merge = list.value()[index];
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return MergePair{merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  if (merge.is_string()) {
    const auto& text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      return MergePair{text.substr(0, space), text.substr(space + 1)};
    }
  }
  return list.invalid(fmt::format("merge {} that is not a pair", index), "[\"left\", \"right\"] or \"left right\"");
}

Result<Merges> parse_merges(const JsonField& list, const Vocabulary& vocabulary, const std::string& prefix) {
  if (!list.value().is_array()) return list.invalid("no list", "a list of merges");
  if (list.value().size() >= static_cast<size_t>(INT32_MAX)) return list.invalid("too many merges", "fewer than 2^31");
  Merges merges;
  merges.reserve(list.value().size());
  for (size_t rank = 0; rank < list.value().size(); ++rank) {
    LOCKSTEP_TRY(const MergePair pair, parse_pair(list, rank));
    const size_t skip = pair.right.starts_with(prefix) ? prefix.size() : 0;
    const auto left = vocabulary.id_of(pair.left);
    const auto right = vocabulary.id_of(pair.right);
    const auto result = vocabulary.id_of(pair.left + pair.right.substr(skip));
    if (!left || !right || !result) {
      return list.invalid(fmt::format("merge {} of \"{}\" and \"{}\"", rank, pair.left, pair.right),
                          "tokens that the vocabulary holds");
    }
    merges[pair_key(*left, *right)] = {static_cast<int32_t>(rank), *result};
  }
  return merges;
}

/// The same for merges read into tables; empty if one of them would be an error.
std::optional<Merges> merges_of(const std::vector<MergeTables::Pair>& pairs, const Vocabulary& vocabulary,
                                const std::string& prefix) {
  if (pairs.size() >= static_cast<size_t>(INT32_MAX)) return std::nullopt;
  Merges merges;
  merges.reserve(pairs.size());
  for (size_t rank = 0; rank < pairs.size(); ++rank) {
    const MergeTables::Pair& pair = pairs[rank];
    const auto left = vocabulary.id_of(pair.left()), right = vocabulary.id_of(pair.right());
    const bool skips = !prefix.empty() && pair.right().starts_with(prefix);
    const auto result = skips ? vocabulary.id_of(std::string(pair.left()).append(pair.right().substr(prefix.size())))
                              : vocabulary.id_of(pair.both);
    if (!left || !right || !result) return std::nullopt;
    merges[pair_key(*left, *right)] = {static_cast<int32_t>(rank), *result};
  }
  return merges;
}

Result<BpeOptions> parse_options(const JsonField& field, const Vocabulary& vocabulary) {
  BpeOptions options;
  if (const auto dropout = field.find("dropout")) {  // the chance that a merge is left out
    LOCKSTEP_TRY(const double chance, dropout->number());
    if (chance != 0) return dropout->unsupported(fmt::format("{}", chance), "0, null");
  }
  LOCKSTEP_TRY(options.continuing_prefix, field.string_or("continuing_subword_prefix", ""));
  LOCKSTEP_TRY(options.end_suffix, field.string_or("end_of_word_suffix", ""));
  LOCKSTEP_TRY(options.fuse_unknown, field.boolean_or("fuse_unk", false));
  LOCKSTEP_TRY(options.byte_fallback, field.boolean_or("byte_fallback", false));
  LOCKSTEP_TRY(options.ignore_merges, field.boolean_or("ignore_merges", false));
  if (const auto unknown = field.find("unk_token")) {
    LOCKSTEP_TRY(const std::string token, unknown->string());
    options.unknown = vocabulary.id_of(token);
    if (!options.unknown) options.missing_unknown = token;  // some byte-level files name one that is never needed
  }
  return options;
}

}  // namespace

Result<std::unique_ptr<Model>> parse_bpe(const JsonField& field, const MergeTables* tables) {
  if (tables != nullptr) {
    auto vocabulary = Vocabulary::of(tables->vocabulary);
    if (!vocabulary) return field.invalid("a vocabulary with an error", "one token for each id");
    LOCKSTEP_TRY(BpeOptions options, parse_options(field, *vocabulary));
    auto merges = merges_of(tables->merges, *vocabulary, options.continuing_prefix);
    if (!merges) return field.invalid("a merge with an error", "tokens that the vocabulary holds");
    return std::make_unique<Bpe>(*std::move(vocabulary), *std::move(merges), std::move(options));
  }
  LOCKSTEP_TRY(const JsonField vocabulary_field, field.at("vocab"));
  LOCKSTEP_TRY(Vocabulary vocabulary, Vocabulary::parse(vocabulary_field));
  LOCKSTEP_TRY(BpeOptions options, parse_options(field, vocabulary));
  LOCKSTEP_TRY(const JsonField merges_field, field.at("merges"));
  LOCKSTEP_TRY(Merges merges, parse_merges(merges_field, vocabulary, options.continuing_prefix));
  return std::make_unique<Bpe>(std::move(vocabulary), std::move(merges), std::move(options));
}

}  // namespace lockstep::text
