// Sums over K of a tile: 16 outputs of a few groups of 8 rows.
//
// Weights are the 16-row side of a tensor core's tile, tokens the 8-column side: whether a step has one row or 500,
// each element of the result goes through the same instructions in the same order. A warp computes one part of the sum;
// parts meet in shared memory, in rounds of as many as there are warps, and each element's thread folds them along the
// tree:
//
//   part    0      1          2      3
//   stack   a      a b → ab   ab c   ab c d → ab cd → abcd ─► root 0
#pragma once

#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/rows.h"

namespace lockstep::cuda {

constexpr int kTileElements = kTileOutputs * kTileRows;

/// Parts and open sums of `groups` groups of 8 rows: element [group][output][row].
template <int kGroups>
struct TileSums {
  float parts[kProductWarps][kGroups][kTileElements];
  float stack[kMostLevels][kGroups][kTileElements];
};

/// Writes the lane's sums of a group, as mma_16x8x16 has them, to [kTileElements].
LOCKSTEP_DEVICE void store_sums(float* to, const float (&sums)[4]) {
  const int lane = thread_index() % 32;
  LOCKSTEP_UNROLL
  for (int i = 0; i < 4; ++i) to[(lane / 4 + i / 2 * 8) * kTileRows + lane % 4 * 2 + i % 2] = sums[i];
}

/// Sums `steps` steps from `weights` on, of which 16-bit elements lie as fragments, into `to`. `pair(group, row,
/// column)` gives the elements of x at `column`, counted from the first step, and the one after it.
template <typename Rows, int kGroups, typename Pair>
LOCKSTEP_DEVICE void sum_part(const uint16_t* weights, int steps, Pair pair, float (&to)[kGroups][kTileElements]) {
  constexpr int kLoads = 8;  // loads of weights that a lane has under way
  const int lane = thread_index() % 32;
  const Words* words = reinterpret_cast<const Words*>(weights) + lane;
  float sums[kGroups][4] = {};
  for (int step = 0; step < steps; step += kLoads) {
    Words loaded[kLoads];
    LOCKSTEP_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      if (step + i < steps) loaded[i] = load_once(words + static_cast<int64_t>(step + i) * 32);
    }
    LOCKSTEP_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      if (step + i >= steps) break;
      const int column = (step + i) * kStepColumns + lane % 4 * 2;
      LOCKSTEP_UNROLL
      for (int group = 0; group < kGroups; ++group) {
        const uint32_t tokens[2] = {pair(group, lane / 4, column), pair(group, lane / 4, column + 8)};
        multiply<Rows>(sums[group], loaded[i].word, tokens);
      }
    }
  }
  LOCKSTEP_UNROLL
  for (int group = 0; group < kGroups; ++group) store_sums(to[group], sums[group]);
}

/// The same of f32: a lane has one output and four rows of each group. `value(group, row, column)` gives an element of
/// x.
template <int kGroups, typename Value>
LOCKSTEP_DEVICE void sum_part_f32(const float* weights, int columns, Value value, float (&to)[kGroups][kTileElements]) {
  const int output = thread_index() % kTileOutputs;
  const int first = thread_index() % 32 / kTileOutputs * 4;
  float sums[kGroups][4] = {};
  for (int column = 0; column < columns; ++column) {
    const float weight = weights[static_cast<int64_t>(column) * kTileOutputs + output];
    LOCKSTEP_UNROLL
    for (int group = 0; group < kGroups; ++group) {
      LOCKSTEP_UNROLL
      for (int row = 0; row < 4; ++row) {
        sums[group][row] = madd(weight, value(group, first + row, column), sums[group][row]);
      }
    }
  }
  LOCKSTEP_UNROLL
  for (int group = 0; group < kGroups; ++group) {
    LOCKSTEP_UNROLL
    for (int row = 0; row < 4; ++row) to[group][output * kTileRows + first + row] = sums[group][row];
  }
}

/// Elements of 16 or 32 bits of a row, two as a word; zeros from `end` on.
template <typename Rows>
LOCKSTEP_DEVICE uint32_t pair_at(const uint16_t* row, int column, int end) {
  if (column >= end) return 0;
  const uint32_t second = column + 1 < end ? row[column + 1] : 0;
  return row[column] | second << 16;
}

/// Pushes a sum onto the stack of `element`, merges, and returns the new height; `sum` becomes the top.
template <int kGroups>
LOCKSTEP_DEVICE int push(float (&stack)[kMostLevels][kGroups][kTileElements], int group, int element, int height,
                         int merges, float& sum) {
  for (int merge = 0; merge < merges; ++merge) sum = plus(stack[--height][group][element], sum);
  stack[height++][group][element] = sum;
  return height;
}

}  // namespace lockstep::cuda
