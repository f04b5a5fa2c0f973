// The sum over a range of leaves in the order of runtime/core/block_tree.h.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "runtime/core/block_tree.h"
#include "runtime/core/result.h"

namespace lockstep::reference {

/// `leaf(i)` returns `Result<std::vector<float>>` of the same size for every leaf. The range is a node of the tree:
/// left half plus right half, where the size of the left half is a power of two.
template <typename Leaf>
Result<std::vector<float>> sum_leaves(Range leaves, const Leaf& leaf) {
  if (leaves.size() == 1) return leaf(leaves.begin);
  const auto half = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(leaves.size())) / 2);
  LOCKSTEP_TRY(std::vector<float> sum, sum_leaves({leaves.begin, leaves.begin + half}, leaf));
  LOCKSTEP_TRY(const std::vector<float> right, sum_leaves({leaves.begin + half, leaves.end}, leaf));
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += right[i];
  return sum;
}

}  // namespace lockstep::reference
