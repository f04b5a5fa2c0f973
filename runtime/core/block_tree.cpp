#include "runtime/core/block_tree.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "runtime/core/check.h"

namespace lockstep {
namespace {

/// The smallest power of two that covers `leaves`: the width of the unclipped tree.
int64_t tree_width(int64_t leaves) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(leaves))); }

void collect_subtrees(Range node, Range wanted, int64_t leaves, std::vector<Range>& found) {
  const Range clipped{node.begin, std::min(node.end, leaves)};
  if (clipped.begin >= wanted.end || clipped.end <= wanted.begin || clipped.size() <= 0) return;
  if (wanted.begin <= clipped.begin && clipped.end <= wanted.end) {
    found.push_back(clipped);
    return;
  }
  const int64_t middle = node.begin + node.size() / 2;
  collect_subtrees({node.begin, middle}, wanted, leaves, found);
  collect_subtrees({middle, node.end}, wanted, leaves, found);
}

/// Emits the additions below `node` and returns the accumulator that holds its sum.
int finish_node(Range node, int64_t leaves, const std::vector<Range>& roots, TreeFinish& plan) {
  const Range clipped{node.begin, std::min(node.end, leaves)};
  const auto held = std::find(roots.begin(), roots.end(), clipped);
  if (held != roots.end()) return static_cast<int>(held - roots.begin());
  const int64_t middle = node.begin + node.size() / 2;
  const int left = finish_node({node.begin, middle}, leaves, roots, plan);
  if (middle >= leaves) return left;
  const int right = finish_node({middle, node.end}, leaves, roots, plan);
  plan.steps.push_back({left, right});
  return left;
}

}  // namespace

std::string to_string(const Range& range) { return fmt::format("{}:{}", range.begin, range.end); }

std::vector<Range> maximal_subtrees(Range range, int64_t leaves) {
  LOCKSTEP_CHECK(0 <= range.begin && range.begin <= range.end && range.end <= leaves, range.begin, range.end, leaves);
  std::vector<Range> found;
  if (range.size() > 0) collect_subtrees({0, tree_width(leaves)}, range, leaves, found);
  return found;
}

std::vector<TreeLeaf> leaves_of(const BlockSplit& split, int rank) {
  std::vector<TreeLeaf> leaves;
  int root = 0;
  for (const Range& subtree : split.roots_of(rank)) {
    int level = 0;
    for (int64_t leaf = subtree.begin; leaf < subtree.end; ++leaf) {
      // The number of trailing ones of the leaf's index within its root is the number of subtrees it completes.
      int merges = __builtin_ctzll(~static_cast<uint64_t>(leaf - subtree.begin));
      if (leaf + 1 == subtree.end) merges = level;  // the clipped end: all remaining sums are added, right to left
      leaves.push_back({.number = leaf, .level = level, .merges = merges});
      level += 1 - merges;
    }
    leaves.back().root = root++;
  }
  return leaves;
}

TreeFinish plan_finish(const BlockSplit& split) {
  TreeFinish plan;
  std::vector<Range> roots;
  plan.first_root.push_back(0);
  for (int rank = 0; rank < split.ranks(); ++rank) {
    const std::vector<Range> own = split.roots_of(rank);
    roots.insert(roots.end(), own.begin(), own.end());
    plan.first_root.push_back(static_cast<int>(roots.size()));
  }
  LOCKSTEP_CHECK(!roots.empty(), split.leaves());
  plan.result = finish_node({0, tree_width(split.leaves())}, split.leaves(), roots, plan);
  return plan;
}

}  // namespace lockstep
