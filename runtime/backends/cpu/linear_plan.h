// The order of a product's sums: a rank's leaves, their merges into roots, and the slabs of K. Only slabs depend on the
// machine; the order of sums does not.
//
// Leaf sums are pushed on a stack and merged like the bits of a counter: four leaves are added as (a+b)+(c+d):
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

/// Steps of a panel (of 256 bytes each at most) whose weights fit a core's second-level cache together with the rows.
constexpr int64_t kSlabSteps = 512;

/// The sums of one product: roots, leaves, and slabs of K with weights that stay in a core's cache for all rows.
struct LinearPlan {
  std::vector<Segment> segments;
  std::vector<int64_t> slabs;      // slab i is segments slabs[i] … slabs[i + 1] − 1
  std::vector<Segment> few;        // the same sums, cut for few rows
  std::vector<int64_t> few_slabs;  // like `slabs`
  std::vector<Segment> streamed;   // the same sums, each leaf whole, for few rows whose weights are read in one stream
  int levels = 1;

  /// One sum over all of K.
  static LinearPlan plain(const Packing& packing);
  /// The roots of `rank` in `split`, with leaves of `block` columns.
  static LinearPlan blocks(const Packing& packing, const BlockSplit& split, int rank, int64_t block);
  /// The same sums, with a leaf and the next one in one segment if the next one closes it.
  LinearPlan in_pairs() const;
  /// The same sums, cut for kernels that process few rows strip by strip.
  LinearPlan in_short_slabs() const;
  /// The same sums, cut for `Kernels::tiled_pairs`: slabs of one shape, with the weights of two strips fitting a core's
  /// first-level cache.
  LinearPlan in_tiles() const;
};

/// The steps of a rank's `leaf`, counted from its first leaf, with `block` columns per leaf.
Range steps_of_leaf(const Packing& packing, int64_t leaf, int64_t block);

}  // namespace lockstep::cpu
