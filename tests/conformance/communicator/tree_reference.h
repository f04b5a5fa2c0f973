// A second, simple implementation of tree sums (docs/design.md, rule 9). Also values whose sum depends on the order of
// additions.
#pragma once

#include <cmath>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "runtime/core/block_tree.h"

namespace lockstep::conformance {

/// The sums of the leaves of one all-reduce: element `column` of leaf `leaf`. Magnitudes differ widely, so almost every
/// other order of additions gives other bits.
inline float leaf_value(int64_t leaf, int64_t column) {
  uint64_t x =
      static_cast<uint64_t>(leaf) * 0x9e3779b97f4a7c15ull + static_cast<uint64_t>(column) * 0xd1342543de82ef95ull;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 32;
  const auto mantissa = static_cast<float>(static_cast<int64_t>(x & 0xffffff) - 0x800000);
  return std::ldexp(mantissa, static_cast<int>(x >> 24 & 15) - 30);
}

/// The sum of the leaves in `node`, which is a node of the tree before clipping.
inline float node_sum(Range node, int64_t leaves, int64_t column) {
  if (node.size() == 1) return leaf_value(node.begin, column);
  const int64_t middle = node.begin + node.size() / 2;
  const float left = node_sum({node.begin, middle}, leaves, column);
  return middle >= leaves ? left : left + node_sum({middle, node.end}, leaves, column);
}

inline int64_t tree_width(int64_t leaves) {
  int64_t width = 1;
  while (width < leaves) width *= 2;
  return width;
}

/// `elements` columns of `node_sum`. Computed once: ranks that are threads ask for the same sums many times.
inline const std::vector<float>& node_sums(Range node, int64_t leaves, int64_t elements) {
  static std::mutex mutex;
  static std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, std::vector<float>> known;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = known.try_emplace({node.begin, node.end, leaves, elements});
  for (int64_t i = 0; is_new && i < elements; ++i) found->second.push_back(node_sum(node, leaves, i));
  return found->second;
}

/// The whole sum, f32 [elements].
inline const std::vector<float>& reference_sum(int64_t leaves, int64_t elements) {
  return node_sums({0, tree_width(leaves)}, leaves, elements);
}

/// The contribution of a rank, f32 [its roots, elements].
inline std::vector<float> reference_roots(const BlockSplit& split, int rank, int64_t elements) {
  std::vector<float> values;
  for (const Range& root : split.roots_of(rank)) {
    const auto& sums = node_sums({root.begin, root.begin + tree_width(root.size())}, root.end, elements);
    values.insert(values.end(), sums.begin(), sums.end());
  }
  return values;
}

/// Ways to share leaves between `ranks`: one each, uneven, several roots per rank, empty ranges, a single leaf.
inline std::vector<BlockSplit> splits_for(int ranks) {
  const auto even = [&](int64_t leaves) {
    BlockSplit split;
    for (int rank = 0; rank <= ranks; ++rank) split.bounds.push_back(leaves * rank / ranks);
    return split;
  };
  std::vector<BlockSplit> splits = {even(ranks), even(9), even(3 * ranks + 1), even(32)};
  BlockSplit last_has_all = even(ranks);
  for (int rank = 0; rank < ranks; ++rank) last_has_all.bounds[rank] = 0;
  splits.push_back(last_has_all);
  BlockSplit first_has_most = even(ranks);
  for (int rank = 1; rank <= ranks; ++rank) first_has_most.bounds[rank] = 12 + rank;
  splits.push_back(first_has_most);
  BlockSplit single = even(1);
  splits.push_back(single);
  return splits;
}

}  // namespace lockstep::conformance
