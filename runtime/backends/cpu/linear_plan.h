// In which order the sums of a product are made: the leaves that a rank sums, how they join to the roots that it sends,
// and the slabs of K in which weights pass. Only slabs depend on the machine; the order of sums does not.
//
//   leaf sums are pushed on a stack and merged like the bits of a counter, so four leaves are added as (a+b)+(c+d):
//
//   segment   0      1          2      3
//   stack     a      a b → ab   ab c   ab c d → ab cd → abcd ─► root 0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/backends/cpu/packing.h"
#include "runtime/core/block_tree.h"

namespace lockstep::cpu {

/// Steps of a panel (of 256 bytes each at most) whose weights stay in a core's second-level cache with the rows.
constexpr int64_t kSlabSteps = 512;

/// The sums of one product: roots, leaves, and the slabs of K whose weights stay in a core's cache while all rows pass.
struct LinearPlan {
  std::vector<Segment> segments;
  std::vector<int64_t> slabs;      // slab i is segments slabs[i] … slabs[i + 1] − 1
  std::vector<Segment> few;        // the same sums, cut for few rows
  std::vector<int64_t> few_slabs;  // as `slabs`
  std::vector<Segment> streamed;   // the same sums, each leaf whole, for rows so few that weights pass in one stream
  int levels = 1;

  /// One sum over all of K.
  static LinearPlan plain(const Packing& packing);
  /// The roots that `split` gives to `rank`, leaves being `block` columns wide.
  static LinearPlan blocks(const Packing& packing, const BlockSplit& split, int rank, int64_t block);
  /// The same sums, a leaf and the next one taken as one segment where the next one closes it.
  LinearPlan in_pairs() const;
  /// The same sums, cut for kernels that take few rows one strip after the other.
  LinearPlan in_short_slabs() const;
  /// The same sums, cut for `Kernels::tiled_pairs`: slabs of one shape, the weights of two strips of which stay in a
  /// core's first-level cache.
  LinearPlan in_tiles() const;
};

/// A leaf of the tree of `split`, which a rank sums: the stack's height before it, the merges after it.
struct TreeLeaf {
  int64_t number = 0;  // of all leaves
  int level = 0;
  int merges = 0;
  int root = -1;  // afterwards, the root that is complete
};
/// The leaves of `rank`, in order.
std::vector<TreeLeaf> leaves_of(const BlockSplit& split, int rank);
/// The steps of a rank's `leaf`, counted from its first, of `block` columns.
Range steps_of_leaf(const Packing& packing, int64_t leaf, int64_t block);

}  // namespace lockstep::cpu
