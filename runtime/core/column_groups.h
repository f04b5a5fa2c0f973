// Groups of columns of a matrix, each with one scale.
//
//   leaf 0          leaf 1          leaf 2        a leaf of `linear_blocks` is cut by itself, so that no group is
//   |-- g0 --|-g1-| |-- g2 --|-g3-| |- g4 -|      shared by two leaves; a plain product is one leaf
#pragma once

#include <cstdint>

#include "runtime/core/block_tree.h"

namespace lockstep {

/// How a row is cut into groups.
struct ColumnGroups {
  int64_t columns = 0;
  int64_t leaf = 1;   // columns of a leaf, at least 1; the last leaf may be narrower
  int64_t width = 4;  // columns of a group; the last of a leaf may be narrower

  /// Groups of a full leaf.
  int64_t per_leaf() const { return (leaf + width - 1) / width; }
  int64_t count() const { return columns / leaf * per_leaf() + (columns % leaf + width - 1) / width; }
  /// The columns of group `index`.
  Range of(int64_t index) const {
    const int64_t first = index / per_leaf() * leaf;
    const int64_t begin = first + index % per_leaf() * width;
    const int64_t end = first + leaf < columns ? first + leaf : columns;
    return {begin, begin + width < end ? begin + width : end};
  }

  friend bool operator==(const ColumnGroups&, const ColumnGroups&) = default;
};

}  // namespace lockstep
