// Unigram (Kudo, 2018): the tokenization of a piece with the highest sum of scores, found by dynamic programming over
// the bytes. A trie lists the tokens at each character.
#include <algorithm>
#include <limits>

#include "runtime/text/model.h"
#include "runtime/text/trie.h"
#include "runtime/text/unicode.h"

namespace lockstep::text {
namespace {

constexpr double kUnknownPenalty = 10.0;  // how far an unknown character scores below the worst token

struct UnigramTables {
  Vocabulary vocabulary;
  std::vector<double> scores;  // by id
  std::optional<int32_t> unknown;
  bool byte_fallback = false;
};

class Unigram final : public Model {
 public:
  explicit Unigram(UnigramTables tables) : tables_(std::move(tables)), byte_tokens_(tables_.vocabulary.byte_tokens()) {
    double lowest = std::numeric_limits<double>::infinity();
    for (int32_t id = 0; id < tables_.vocabulary.end(); ++id) {
      lowest = std::min(lowest, tables_.scores[id]);
      trie_.add(*tables_.vocabulary.token_of(id), id);
    }
    unknown_score_ = lowest - kUnknownPenalty;
  }

  const Vocabulary& vocabulary() const override { return tables_.vocabulary; }

  Result<void> encode(std::string_view piece, std::vector<int32_t>& ids) const override {
    LOCKSTEP_TRY(const auto spans, best_path(piece));
    for (const auto& [begin, end] : spans) append(piece.substr(begin, end - begin), ids);
    return ok();
  }

 private:
  static constexpr size_t kNowhere = std::numeric_limits<size_t>::max();

  struct Node {  // the best path to a byte
    double score = 0;
    size_t begin = kNowhere;  // of the last token
    bool unknown = false;     // the last token is an unknown character
  };
  struct Token {
    size_t begin;
    size_t end;
  };

  /// The tokens of the best path; adjacent unknown characters become one. Without an unknown token it fails as soon as
  /// the best path to a character's end needs one, also where a later token would cover the character, as in the
  /// tokenizers package.
  Result<std::vector<Token>> best_path(std::string_view piece) const {
    std::vector<Node> nodes(piece.size() + 1);
    for (size_t begin = 0; begin < piece.size();) {
      size_t next = begin;
      next_char(piece, next);
      const double score = nodes[begin].score;
      const auto offer = [&](size_t end, double candidate, bool unknown) {
        Node& node = nodes[end];
        const bool better = node.begin == kNowhere || candidate > node.score;
        if (better) node = {candidate, begin, unknown};
        return better;
      };
      bool has_character = false;
      trie_.for_each_prefix(piece.substr(begin), [&](size_t length, int32_t id) {
        offer(begin + length, score + tables_.scores[id], id == tables_.unknown);
        has_character = has_character || begin + length == next;
      });
      if (!has_character && offer(next, score + unknown_score_, true) && !tables_.unknown) {
        return no_token_for(piece.substr(begin), "an unknown token (model.unk_id)");
      }
      begin = next;
    }
    std::vector<Token> path;
    bool after_unknown = false;
    for (size_t end = piece.size(); end > 0; end = nodes[end].begin) {
      const Node& node = nodes[end];
      if (node.unknown && after_unknown) {
        path.back().begin = node.begin;
      } else {
        path.push_back({node.begin, end});
      }
      after_unknown = node.unknown;
    }
    std::reverse(path.begin(), path.end());
    return path;
  }

  void append(std::string_view token, std::vector<int32_t>& ids) const {
    if (const auto id = tables_.vocabulary.id_of(token)) {
      ids.push_back(*id);
      return;
    }
    const auto id_of_byte = [&](char byte) { return byte_tokens_[static_cast<uint8_t>(byte)]; };
    if (tables_.byte_fallback &&
        std::all_of(token.begin(), token.end(), [&](char byte) { return id_of_byte(byte) >= 0; })) {
      for (const char byte : token) ids.push_back(id_of_byte(byte));
    } else {
      ids.push_back(tables_.unknown.value());  // best_path has seen that it is there
    }
  }

  UnigramTables tables_;
  std::vector<int32_t> byte_tokens_;
  Trie trie_;
  double unknown_score_ = 0;
};

}  // namespace

Result<std::unique_ptr<Model>> parse_unigram(const JsonField& field) {
  UnigramTables tables;
  LOCKSTEP_TRY(const JsonField list, field.at("vocab"));
  if (!list.value().is_array() || list.value().size() >= static_cast<size_t>(kMaxIds)) {
    return list.invalid("no list of tokens", "[[token, score], …]");
  }
  for (const auto& entry : list.value()) {
    const auto id = static_cast<int32_t>(tables.scores.size());
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
      return list.invalid(fmt::format("entry {} that is not a token with a score", id), "[token, score]");
    }
    if (!tables.vocabulary.add(entry[0].get<std::string>(), id)) {
      return list.invalid(fmt::format("the token of entry {} a second time", id), "each token once");
    }
    tables.scores.push_back(entry[1].get<double>());
  }
  if (const auto unknown = field.find("unk_id")) {
    LOCKSTEP_TRY(const int64_t id, unknown->integer(0, tables.vocabulary.end() - 1));
    tables.unknown = static_cast<int32_t>(id);
  }
  LOCKSTEP_TRY(tables.byte_fallback, field.boolean_or("byte_fallback", false));
  return std::make_unique<Unigram>(std::move(tables));
}

}  // namespace lockstep::text
