// Products with weights on tensor cores.
//
// Weights are the 16-row side of a tile, tokens the 8-column side: whether a step has one row or 500, each element of
// the result goes through the same instructions in the same order. A warp sums one segment of K; the segments are added
// in ascending order:
//
//   16 outputs  │ warp 0 │ warp 1 │ … │ warp 7 │      K, in whole steps of 16 columns
//                   │        │            │
//                  ((s0  +  s1)  + …  +  s7)  + bias
#include "runtime/backends/cuda/kernels/device.h"
#include "runtime/backends/cuda/kernels/parameters.h"

namespace lockstep::cuda {
namespace {

constexpr int kTileElements = kTileOutputs * kTileRows;
constexpr int kLoads = 8;   // loads of weights that a lane has under way
constexpr int kGroups = 4;  // tiles of tokens that one reading of the weights serves

struct ProductShared {
  float segments[kSegments][kGroups][kTileElements];
};

/// The two elements at `column` of `row`, or zeros beyond the edges.
LOCKSTEP_DEVICE uint32_t pair_at(const ProductParameters& p, int row, int column) {
  if (row >= p.rows || column >= p.columns) return 0;
  const Bf16* at = static_cast<const Bf16*>(p.x) + static_cast<int64_t>(row) * p.columns + column;
  const uint32_t second = column + 1 < p.columns ? at[1] : 0;
  return at[0] | second << 16;
}

/// Sums steps [begin, end) of a tile of weights for kGroups tiles of tokens from `first_row` on.
LOCKSTEP_DEVICE void sum_segment(const ProductParameters& p, const Words* weights, int begin, int end, int first_row,
                                 float (&sums)[kGroups][4]) {
  const int lane = thread_index() % 32;
  for (int step = begin; step < end; step += kLoads) {
    Words loaded[kLoads];
    LOCKSTEP_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      if (step + i < end) loaded[i] = load_once(weights + static_cast<int64_t>(step + i) * 32 + lane);
    }
    LOCKSTEP_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      if (step + i >= end) break;
      const int column = (step + i) * kStepColumns + lane % 4 * 2;
      LOCKSTEP_UNROLL
      for (int group = 0; group < kGroups; ++group) {
        const int row = first_row + group * kTileRows + lane / 4;
        const uint32_t tokens[2] = {pair_at(p, row, column), pair_at(p, row, column + 8)};
        mma_16x8x16(sums[group], loaded[i].word, tokens);
      }
    }
  }
}

LOCKSTEP_DEVICE void write(const ProductParameters& p, int row, int output, float value) {
  if (row >= p.rows || output >= p.outputs) return;
  if (p.bias != nullptr) value = plus(value, float_of(static_cast<const Bf16*>(p.bias)[output]));
  const int64_t at = static_cast<int64_t>(row) * p.outputs + output;
  if (p.is_float != 0) {
    static_cast<float*>(p.y)[at] = value;
  } else {
    static_cast<Bf16*>(p.y)[at] = bf16_of(value);
  }
}

}  // namespace

LOCKSTEP_KERNEL(product_bf16, ProductParameters, kProductThreads) {
  ProductShared& shared = shared_memory<ProductShared>();
  const int warp = thread_index() / 32;
  const int lane = thread_index() % 32;
  const int begin = static_cast<int>(static_cast<int64_t>(p.k_steps) * warp / kSegments);
  const int end = static_cast<int>(static_cast<int64_t>(p.k_steps) * (warp + 1) / kSegments);
  const Words* weights = static_cast<const Words*>(p.weights) + static_cast<int64_t>(block_index()) * p.k_steps * 32;
  for (int first_row = 0; first_row < p.rows; first_row += kGroups * kTileRows) {
    float sums[kGroups][4] = {};
    sum_segment(p, weights, begin, end, first_row, sums);
    LOCKSTEP_UNROLL
    for (int group = 0; group < kGroups; ++group) {
      LOCKSTEP_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int output = lane / 4 + i / 2 * 8;
        const int row = lane % 4 * 2 + i % 2;
        shared.segments[warp][group][output * kTileRows + row] = sums[group][i];
      }
    }
    sync_block();
    for (int element = thread_index(); element < kGroups * kTileElements; element += kProductThreads) {
      const int group = element / kTileElements;
      const int inside = element % kTileElements;
      float value = shared.segments[0][group][inside];
      for (int segment = 1; segment < kSegments; ++segment) {
        value = plus(value, shared.segments[segment][group][inside]);
      }
      write(p, first_row + group * kTileRows + inside % kTileRows, block_index() * kTileOutputs + inside / kTileRows,
            value);
    }
    sync_block();
  }
}

}  // namespace lockstep::cuda
