// Numbers in 8 bits, by groups: how a row of a matrix is cut into groups of columns, and what becomes of a group.
//
//   leaf 0          leaf 1          leaf 2        a leaf of `linear_blocks` is cut by itself, so that no group is
//   |-- g0 --|-g1-| |-- g2 --|-g3-| |- g4 -|      shared by two leaves; a plain product is one leaf
//
// A group has one float32 scale, its largest magnitude / 127; its values become the nearest multiples of the scale
// (ties to even), so integers from -127 to 127. Sums of products of such integers are exact.
#pragma once

#include <cstdint>

#include "runtime/core/block_tree.h"

namespace lockstep {

/// The smallest and largest width of a group, which is a multiple of the smallest. Exact in float32, too: 1024 products
/// of two such integers stay below 2^24.
inline constexpr int64_t kLeastInt8Group = 4;
inline constexpr int64_t kMostInt8Group = 1024;

/// Whether rows can be cut into groups of `width` columns.
constexpr bool is_int8_group(int64_t width) {
  return width >= kLeastInt8Group && width <= kMostInt8Group && width % kLeastInt8Group == 0;
}

/// The groups of a row of `columns`.
struct Int8Groups {
  int64_t columns = 0;
  int64_t leaf = 1;   // columns of a leaf, at least 1; the last leaf may be narrower
  int64_t width = 4;  // columns of a group; the last of a leaf may be narrower

  /// Groups of a whole leaf.
  int64_t per_leaf() const { return (leaf + width - 1) / width; }
  int64_t count() const { return columns / leaf * per_leaf() + (columns % leaf + width - 1) / width; }
  /// The columns of group `index`.
  Range of(int64_t index) const {
    const int64_t first = index / per_leaf() * leaf;
    const int64_t begin = first + index % per_leaf() * width;
    const int64_t end = first + leaf < columns ? first + leaf : columns;
    return {begin, begin + width < end ? begin + width : end};
  }

  friend bool operator==(const Int8Groups&, const Int8Groups&) = default;
};

/// Bytes that a matrix of `rows` takes so: an integer for each element, a scale for each group.
int64_t int8_bytes(int64_t rows, const Int8Groups& groups);

/// Writes the integers of a group of `count` values and returns its scale. A NaN or an infinity among the values makes
/// the scale NaN and the integers 0, so that all that is computed with the group is NaN. A group whose values are all
/// below 2^-100 counts as zeros, with scale 0.
float to_int8(const float* values, int64_t count, int8_t* integers);

}  // namespace lockstep
