// 8-bit quantisation of matrix rows by groups of columns.
//
//   leaf 0          leaf 1          leaf 2        a leaf of `linear_blocks` is cut by itself, so that no group is
//   |-- g0 --|-g1-| |-- g2 --|-g3-| |- g4 -|      shared by two leaves; a plain product is one leaf
//
// A group has one float32 scale: its largest magnitude / 127. Its values are rounded to multiples of the scale (ties to
// even), as integers from -127 to 127. Sums of products of such integers are exact.
#pragma once

#include <cstdint>

#include "runtime/core/block_tree.h"

namespace lockstep {

/// The smallest and largest width of a group; a width is a multiple of the smallest. Up to 1024 products of two such
/// integers stay below 2^24, so they are exact in float32, too.
inline constexpr int64_t kLeastInt8Group = 4;
inline constexpr int64_t kMostInt8Group = 1024;

/// Whether rows can be cut into groups of `width` columns.
constexpr bool is_int8_group(int64_t width) {
  return width >= kLeastInt8Group && width <= kMostInt8Group && width % kLeastInt8Group == 0;
}

/// How a row is cut into groups.
struct Int8Groups {
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

  friend bool operator==(const Int8Groups&, const Int8Groups&) = default;
};

/// Bytes of a quantised matrix of `rows`: one integer per element, one scale per group.
int64_t int8_bytes(int64_t rows, const Int8Groups& groups);

/// Writes the integers of a group of `count` values and returns its scale. A NaN or an infinity among the values gives
/// the scale NaN and integers 0, so every result of the group is NaN. If all values are below 2^-100, scale and
/// integers are 0.
float to_int8(const float* values, int64_t count, int8_t* integers);

}  // namespace lockstep
