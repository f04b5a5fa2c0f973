// The parameters of the kernels, as host and device see them. Addresses are of device memory. Sizes are elements.
#pragma once

#include <cstdint>

namespace lockstep::cuda {

/// rms_norm_f32, rms_norm_bf16: a block is a group of `columns` of a row.
struct RmsNormParameters {
  const void* x;       // dt [groups, columns]
  const void* weight;  // dt [columns]
  void* y;             // dt [groups, columns]
  int32_t columns;
  float epsilon;
  float offset;        // added to the weight
  int32_t has_offset;  // then x / root is not rounded before it is multiplied
};
constexpr int kRmsNormThreads = 256;

/// product_bf16: y = x · wᵀ + bias. A block is 16 outputs of all rows.
struct ProductParameters {
  const void* weights;  // bf16, packed: [outputs / 16][k_steps][32 lanes][8 elements] (packing.h)
  const void* x;        // bf16 [rows, columns]
  const void* bias;     // bf16 [outputs]; may be null
  void* y;              // bf16 or f32 [rows, outputs]
  int32_t rows;
  int32_t columns;
  int32_t k_steps;  // of 16 columns, the last one padded with zeros
  int32_t outputs;
  int32_t is_float;  // y is f32
};
constexpr int kProductThreads = 256;
constexpr int kTileOutputs = 16;
constexpr int kTileRows = 8;
constexpr int kStepColumns = 16;
/// Each sum over K is cut into this many segments of whole steps, by K alone.
constexpr int kSegments = 8;

constexpr int kMostRanks = 16;
constexpr int kMostRoots = 64;

/// sum_of_ranks: the tree sum over the roots of all ranks, rounded, plus a residual. Every rank runs it with the same
/// number of blocks, all of which have to be resident. Roots and flags are memory that peers see; roots alternate
/// between two halves, so a rank may write the next ones while others still read.
struct SumParameters {
  const float* roots[kMostRanks];  // of each rank, as this device sees them: f32 [its roots, elements]
  uint32_t* flags[kMostRanks];     // of each rank: [ranks, blocks], zero before the first step
  const int32_t* plan;             // TreeFinish: [ranks + 1] first roots, then pairs (dst, src)
  int32_t ranks;
  int32_t rank;
  int32_t additions;     // pairs in the plan
  int32_t result;        // the root that holds the sum at the end
  const uint32_t* step;  // counted up by the last launch of a step; the same on every rank
  uint32_t sums;         // of a step
  uint32_t index;        // of this one
  int64_t elements;
  const void* residual;   // bf16 or f32 [elements]; may be null
  void* y;                // bf16 or f32 [elements]
  int32_t is_float;       // y and residual are f32
  const uint32_t* abort;  // not 0: give up
  uint32_t* missing;      // becomes 1 + the rank that did not come
  uint64_t patience;      // nanoseconds until then
};
constexpr int kSumThreads = 256;

}  // namespace lockstep::cuda
