// A set of byte strings, searched by prefix.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lockstep::text {

/// Strings with a number each. Adding "" has no effect, because it is a prefix of everything and no token.
class Trie {
 public:
  void add(std::string_view text, int32_t value) {
    if (text.empty()) return;
    int32_t node = kRoot;
    for (const char byte : text) {
      const auto [edge, is_new] = edges_.try_emplace(edge_key(node, byte), static_cast<int32_t>(values_.size()));
      if (is_new) values_.push_back(kNone);
      node = edge->second;
    }
    first_bytes_[static_cast<uint8_t>(text[0])] = true;
    values_[node] = value;
  }

  /// Calls `visit(length, value)` for each string that is a prefix of `text`, shortest first.
  template <typename Visit>
  void for_each_prefix(std::string_view text, Visit visit) const {
    if (text.empty() || !first_bytes_[static_cast<uint8_t>(text[0])]) return;
    int32_t node = kRoot;
    for (size_t i = 0; i < text.size(); ++i) {
      const auto edge = edges_.find(edge_key(node, text[i]));
      if (edge == edges_.end()) return;
      node = edge->second;
      if (values_[node] != kNone) visit(i + 1, values_[node]);
    }
  }

 private:
  static constexpr int32_t kRoot = 0;
  static constexpr int32_t kNone = -1;

  static uint64_t edge_key(int32_t node, char byte) {
    return (static_cast<uint64_t>(node) << 8) | static_cast<uint8_t>(byte);
  }

  std::unordered_map<uint64_t, int32_t> edges_;
  std::vector<int32_t> values_ = {kNone};  // by node
  bool first_bytes_[256] = {};
};

}  // namespace lockstep::text
