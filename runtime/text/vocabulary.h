// Mapping between tokens and ids, both ways.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/core/result.h"
#include "runtime/text/json_field.h"

namespace lockstep::text {

/// Upper bound of ids: enough for every model, and small enough for tables indexed by id.
inline constexpr int64_t kMaxIds = int64_t{1} << 24;

/// Allows lookups with `std::string_view` in tables keyed by `std::string`.
struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

/// A one-to-one relation between tokens and ids; ids may have gaps.
class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  /// From an object {token: id}. Fails with `kInvalidArgument` on invalid or duplicate ids.
  static Result<Vocabulary> parse(const JsonField& field);

  /// From tokens and ids; empty if `parse` would fail.
  static std::optional<Vocabulary> of(const std::vector<std::pair<std::string, int64_t>>& tokens);

  /// Returns false when the id or the token already exists.
  bool add(std::string token, int32_t id);
  void reserve(size_t tokens);

  std::optional<int32_t> id_of(std::string_view token) const {
    const auto entry = ids_.find(token);
    return entry == ids_.end() ? std::nullopt : std::optional(entry->second);
  }
  /// Empty for an unknown id. Valid as long as the vocabulary.
  std::optional<std::string_view> token_of(int32_t id) const {
    if (id < 0 || id >= end() || tokens_[id] == nullptr) return std::nullopt;
    return *tokens_[id];
  }
  /// The number of tokens.
  int32_t size() const { return static_cast<int32_t>(ids_.size()); }
  /// One more than the largest id.
  int32_t end() const { return static_cast<int32_t>(tokens_.size()); }

  /// The ids of the tokens <0x00> … <0xFF>; −1 if missing.
  std::vector<int32_t> byte_tokens() const;

 private:
  std::unordered_map<std::string, int32_t, StringHash, std::equal_to<>> ids_;
  std::vector<const std::string*> tokens_;  // by id: keys of ids_, with stable addresses
};

}  // namespace lockstep::text
