// Token histories of slots as a tree, in which histories share the nodes of their common beginnings.
//
//   slot 0   s y s A B           root ── s y s ─┬─ A B        slot 0 ends at its end, slot 2 inside it
//   slot 1   s y s C                            └─ C          slot 1
//   slot 2   s y s A
//
// The lengths of the prefixes that all slots share with a prompt cost one comparison per token of the prompt, however
// many slots hold the same beginning. There are at most two nodes per slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lockstep::actors {

/// Pure. Used by one thread.
class PrefixTree {
 public:
  /// Every history is empty at first.
  explicit PrefixTree(size_t slots);
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;
  PrefixTree(PrefixTree&&) noexcept;
  PrefixTree& operator=(PrefixTree&&) noexcept;

  /// Replaces the history of `slot`; an empty one removes it.
  void set(size_t slot, std::span<const int32_t> ids);
  void append(size_t slot, int32_t id) { extend(slot, {&id, 1}); }

  /// The length of the common prefix of `ids` and each history: [slots].
  std::vector<int64_t> common(std::span<const int32_t> ids) const;

  /// The other slots whose histories begin with the whole history of `slot`.
  std::vector<size_t> extensions(size_t slot) const;

 private:
  struct Node;
  /// The end of a history: after `offset` tokens of the node.
  struct Place {
    Node* node = nullptr;
    size_t offset = 0;
  };

  void extend(size_t slot, std::span<const int32_t> ids);
  void move(size_t slot, Node& to, size_t offset);
  void leave(size_t slot);
  void split(Node& node, size_t at);
  void prune(Node* node);
  void merge_with_child(Node& node);

  std::unique_ptr<Node> root_;  // without tokens
  std::vector<Place> places_;   // [slots]
};

}  // namespace lockstep::actors
