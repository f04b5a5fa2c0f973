// A tokenizer of single characters and a few longer tokens, and whole answers of a constraint.
#pragma once

#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/constraint/constraint.h"
#include "runtime/text/tokenizer.h"

namespace lockstep::constraint {

enum class Words { kNone, kAll };

/// A token for every printable character, line feed and tab, a few longer ones, an end token, and a special token.
class Letters final : public text::Tokenizer {
 public:
  /// `words`: also all tokens of three small letters.
  explicit Letters(Words words = Words::kNone) {
    tokens_ = {"<end>", "<call>"};
    for (char c = ' '; c <= '~'; ++c) tokens_.emplace_back(1, c);
    tokens_.insert(tokens_.end(), {"\n", "\t", "true", "{\"", "\":", "   "});
    if (words == Words::kAll) add_words();
    for (size_t id = 0; id < tokens_.size(); ++id) ids_[tokens_[id]] = static_cast<int32_t>(id);
  }
  Result<std::optional<std::vector<int32_t>>> encode_within(std::string_view text, text::SpecialTokens,
                                                            size_t most) const override {
    std::vector<int32_t> ids;
    for (const char c : text) ids.push_back(ids_.at(std::string(1, c)));
    return ids.size() > most ? std::nullopt : std::optional(std::move(ids));
  }
  Result<std::string> decode(const std::vector<int32_t>&, text::SpecialPieces) const override { return std::string(); }
  std::unique_ptr<text::DecodeStream> open_stream(text::SpecialPieces) const override { return nullptr; }
  std::optional<int32_t> id_of(std::string_view token) const override {
    const auto found = ids_.find(std::string(token));
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<std::string> token_of(int32_t id) const override { return tokens_[static_cast<size_t>(id)]; }
  bool is_special(int32_t id) const override { return id < 2; }
  int32_t vocabulary() const override { return static_cast<int32_t>(tokens_.size()); }

 private:
  void add_words() {
    for (char a = 'a'; a <= 'z'; ++a) {
      for (char b = 'a'; b <= 'z'; ++b) {
        for (char c = 'a'; c <= 'z'; ++c) tokens_.push_back({a, b, c});
      }
    }
  }

  std::vector<std::string> tokens_;
  std::map<std::string, int32_t> ids_;
};

constexpr int32_t kEnd = 0;
constexpr int32_t kCall = 1;

inline bool allows(Matcher& matcher, int32_t id) {
  std::vector<float> row(static_cast<size_t>(Letters().vocabulary()), 0.0f);
  return matcher.mask(row).has_value() && !std::isinf(row[static_cast<size_t>(id)]);
}

/// Whether `text`, character by character, is a whole answer.
inline bool is_answer(Matcher& matcher, std::string_view text) {
  const std::vector<int32_t> ids = Letters().encode(text, text::SpecialTokens::kOmit).value();
  for (const int32_t id : ids) {
    if (!allows(matcher, id) || !matcher.accept(id).has_value()) return false;
  }
  return allows(matcher, kEnd);
}

}  // namespace lockstep::constraint
