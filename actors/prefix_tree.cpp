#include "actors/prefix_tree.h"

#include <algorithm>
#include <utility>

namespace lockstep::actors {

struct PrefixTree::Node {
  std::vector<int32_t> tokens;  // after those of its parent; at least one, except of the root
  Node* parent = nullptr;
  std::vector<std::unique_ptr<Node>> children;  // that differ in their first tokens
  std::vector<size_t> slots;                    // that end here

  Node* child(int32_t first) const {
    const auto found = std::ranges::find_if(children, [&](const auto& node) { return node->tokens.front() == first; });
    return found == children.end() ? nullptr : found->get();
  }
  Node& add_child(std::span<const int32_t> ids) {
    Node& child = *children.emplace_back(std::make_unique<Node>());
    child.tokens.assign(ids.begin(), ids.end());
    child.parent = this;
    return child;
  }
};

namespace {

size_t same_length(std::span<const int32_t> a, std::span<const int32_t> b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

/// Calls `visit` with every slot at or below `node`.
template <typename Node, typename Visit>
void for_all_slots(const Node& node, const Visit& visit) {
  for (const size_t slot : node.slots) visit(slot);
  for (const auto& child : node.children) for_all_slots(*child, visit);
}

}  // namespace

PrefixTree::PrefixTree(size_t slots) : root_(std::make_unique<Node>()), places_(slots) {}
PrefixTree::~PrefixTree() = default;
PrefixTree::PrefixTree(PrefixTree&&) noexcept = default;
PrefixTree& PrefixTree::operator=(PrefixTree&&) noexcept = default;

void PrefixTree::set(size_t slot, std::span<const int32_t> ids) {
  leave(slot);
  if (!ids.empty()) extend(slot, ids);
}

void PrefixTree::extend(size_t slot, std::span<const int32_t> ids) {
  Place& place = places_[slot];
  if (place.node == nullptr) move(slot, *root_, 0);
  while (true) {
    Node& node = *place.node;
    const size_t same = same_length(ids, std::span(node.tokens).subspan(place.offset));
    place.offset += same;
    ids = ids.subspan(same);
    if (ids.empty()) return;
    if (place.offset < node.tokens.size()) split(node, place.offset);
    if (Node* const child = node.child(ids.front())) {
      move(slot, *child, 0);
      continue;
    }
    if (node.children.empty() && &node != root_.get()) {
      node.tokens.insert(node.tokens.end(), ids.begin(), ids.end());
      place.offset = node.tokens.size();
    } else {
      move(slot, node.add_child(ids), ids.size());
    }
    return;
  }
}

void PrefixTree::move(size_t slot, Node& to, size_t offset) {
  Place& place = places_[slot];
  if (place.node != nullptr) std::erase(place.node->slots, slot);
  to.slots.push_back(slot);
  place = {&to, offset};
}

/// The tokens after the first `at` move to a new child.
void PrefixTree::split(Node& node, size_t at) {
  auto tail = std::make_unique<Node>();
  tail->tokens.assign(node.tokens.begin() + static_cast<ptrdiff_t>(at), node.tokens.end());
  tail->parent = &node;
  tail->children = std::exchange(node.children, {});
  for (const auto& child : tail->children) child->parent = tail.get();
  node.tokens.resize(at);
  for (const size_t slot : std::vector(node.slots)) {
    const size_t offset = places_[slot].offset;
    if (offset > at) move(slot, *tail, offset - at);
  }
  node.children.push_back(std::move(tail));
}

void PrefixTree::leave(size_t slot) {
  Node* const node = std::exchange(places_[slot], {}).node;
  if (node == nullptr) return;
  std::erase(node->slots, slot);
  prune(node);
}

/// Removes what no history needs: tokens beyond all ends, and borders between a node and its only child.
void PrefixTree::prune(Node* node) {
  while (node != root_.get()) {
    if (node->children.size() == 1) return merge_with_child(*node);
    if (!node->children.empty()) return;
    size_t longest = 0;
    for (const size_t slot : node->slots) longest = std::max(longest, places_[slot].offset);
    node->tokens.resize(longest);
    if (longest > 0) return;
    Node* const parent = node->parent;
    std::erase_if(parent->children, [&](const auto& child) { return child.get() == node; });
    node = parent;
  }
}

void PrefixTree::merge_with_child(Node& node) {
  const std::unique_ptr<Node> child = std::move(node.children.front());
  const size_t before = node.tokens.size();
  node.tokens.insert(node.tokens.end(), child->tokens.begin(), child->tokens.end());
  node.children = std::move(child->children);
  for (const auto& grandchild : node.children) grandchild->parent = &node;
  for (const size_t slot : std::vector(child->slots)) move(slot, node, before + places_[slot].offset);
}

std::vector<int64_t> PrefixTree::common(std::span<const int32_t> ids) const {
  std::vector<int64_t> lengths(places_.size());
  size_t depth = 0;
  for (const Node* node = root_.get(); node != nullptr;) {
    const size_t same = same_length(node->tokens, ids.subspan(depth));
    for (const size_t slot : node->slots) {
      lengths[slot] = static_cast<int64_t>(depth + std::min(same, places_[slot].offset));
    }
    depth += same;
    const bool goes_on = same == node->tokens.size() && depth < ids.size();
    const Node* const next = goes_on ? node->child(ids[depth]) : nullptr;
    for (const auto& child : node->children) {
      if (child.get() == next) continue;
      for_all_slots(*child, [&](size_t slot) { lengths[slot] = static_cast<int64_t>(depth); });
    }
    node = next;
  }
  return lengths;
}

std::vector<size_t> PrefixTree::extensions(size_t slot) const {
  const auto& [node, offset] = places_[slot];
  std::vector<size_t> longer;
  if (node == nullptr) return longer;
  for_all_slots(*node, [&, node = node, offset = offset](size_t other) {
    const Place& place = places_[other];
    if (other != slot && (place.node != node || place.offset >= offset)) longer.push_back(other);
  });
  return longer;
}

}  // namespace lockstep::actors
