// 8-bit quantisation of matrix rows by groups of columns (column_groups.h).
//
// A group has one float32 scale: its largest magnitude / 127. Its values are rounded to multiples of the scale (ties to
// even), as integers from -127 to 127. Sums of products of such integers are exact.
#pragma once

#include <cstdint>

#include "runtime/core/column_groups.h"

namespace lockstep {

/// The smallest and largest width of a group; a width is a multiple of the smallest. Up to 1024 products of two such
/// integers stay below 2^24, so they are exact in float32, too.
inline constexpr int64_t kLeastInt8Group = 4;
inline constexpr int64_t kMostInt8Group = 1024;

/// Whether rows can be cut into groups of `width` columns.
constexpr bool is_int8_group(int64_t width) {
  return width >= kLeastInt8Group && width <= kMostInt8Group && width % kLeastInt8Group == 0;
}

/// Bytes of a quantised matrix of `rows`: one integer per element, one scale per group.
int64_t int8_bytes(int64_t rows, const ColumnGroups& groups);

/// Writes the integers of a group of `count` values and returns its scale. A NaN or an infinity among the values gives
/// the scale NaN and integers 0, so every result of the group is NaN. If all values are below 2^-100, scale and
/// integers are 0.
float to_int8(const float* values, int64_t count, int8_t* integers);

}  // namespace lockstep
