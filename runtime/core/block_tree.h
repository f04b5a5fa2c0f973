// The order of a sum over ranks, determined by the configuration alone.
//
// A sum over K (the columns of a row-parallel matrix, the heads of an attention output) is cut into `leaves` blocks,
// and the block sums are added along a complete binary tree whose nodes are aligned to powers of two and clipped at
// the last leaf. Five leaves:
//
//                  [0,5)
//              /          \                 A rank that owns leaves 0-2 holds the roots [0,2) [2,3),
//          [0,4)          [4,5)             the rank with leaves 3-4 holds          [3,4) [4,5).
//         /     \           |
//      [0,2)   [2,4)      [4,5)             They exchange these four roots and finish the same additions:
//      /  \    /  \         |               ((r0 + (r1 + r2)) + r3.
//     0    1  2    3        4
//
// The same additions happen in the same order however the leaves are divided, so the sum is the same to the bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// A half-open range of integers, `[begin, end)`: leaves, heads, rows, columns.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool contains(int64_t i) const { return begin <= i && i < end; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// "3:7".
std::string to_string(const Range& range);

/// The largest tree nodes inside `range`, left to right: the partial sums that a rank with those leaves can compute
/// alone. Empty for an empty range.
std::vector<Range> maximal_subtrees(Range range, int64_t leaves);

/// How the leaves of one sum are divided between ranks: rank r owns `[bounds[r], bounds[r + 1])`. `bounds` starts at 0,
/// ends at the number of leaves and never decreases. The same value on every rank.
struct BlockSplit {
  std::vector<int64_t> bounds;

  int ranks() const { return static_cast<int>(bounds.size()) - 1; }
  int64_t leaves() const { return bounds.back(); }
  Range range_of(int rank) const { return {bounds[rank], bounds[rank + 1]}; }
  std::vector<Range> roots_of(int rank) const { return maximal_subtrees(range_of(rank), leaves()); }
  friend bool operator==(const BlockSplit&, const BlockSplit&) = default;
};

/// A rank's leaf: the sums open before it, and the merges after it. A rank's sums are pushed on a stack and merged like
/// the bits of a counter.
struct TreeLeaf {
  int64_t number = 0;  // index among all leaves
  int level = 0;
  int merges = 0;
  int root = -1;  // root completed afterwards
};
/// The leaves of `rank`, in order.
std::vector<TreeLeaf> leaves_of(const BlockSplit& split, int rank);

/// The additions that turn the roots of all ranks into the sum. Roots are numbered rank by rank, in the order of
/// `roots_of`. Executing the steps in order over an array of `roots` accumulators leaves the sum in accumulator
/// `result`; each step is `accumulator[dst] += accumulator[src]`, dst being the left operand of the tree's node.
struct TreeFinish {
  struct Step {
    int dst = 0;
    int src = 0;
    friend bool operator==(const Step&, const Step&) = default;
  };
  std::vector<int> first_root;  // [ranks + 1]: rank r's roots are first_root[r] … first_root[r + 1] − 1
  std::vector<Step> steps;
  int result = 0;

  int roots() const { return first_root.back(); }
};

/// Plans the additions that finish `split`. Pure; the same on every rank.
TreeFinish plan_finish(const BlockSplit& split);

}  // namespace lockstep
