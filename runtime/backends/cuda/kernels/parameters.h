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

/// attend_f32, attend_bf16: a block is a query head of a row. Keys and values lie in tiles of 64 tokens, in
/// [heads][64][head_dim] of one cache; tile n of a slot is at slot · slot_stride + n · tile_stride. Beyond the fixed
/// tiles of a ring, tile n is at fixed + (n − fixed) mod turning.
struct AttendParameters {
  const void* q;         // dt [rows, heads, head_dim]
  const void* pinned_q;  // the same for keys of pinned positions; may be null
  const void* keys;      // dt, of slot 0, tile 0
  const void* values;
  const int32_t* slot;      // [rows]; −1: a padding row, whose result is 0
  const int32_t* position;  // [rows]
  const int32_t* head_map;  // [heads]: the head of the cache
  const float* slopes;      // [heads]; may be null
  const float* sinks;       // [heads]; may be null
  void* y;                  // dt [rows, heads, head_dim]
  int64_t slot_stride;      // elements
  int64_t tile_stride;
  int32_t heads;
  int32_t head_dim;
  int32_t window;  // 0: everything is seen
  int32_t pinned;
  int32_t fixed_tiles;
  int32_t turning_tiles;  // 0: no ring
  float scale;
  float soft_cap;  // 0: none
};
constexpr int kAttendThreads = 128;
constexpr int kTileTokens = 64;
constexpr int kMostHeadDim = 512;

/// gate_f32, gate_bf16: activation(gate) · up, a thread an element.
struct GateParameters {
  const void* gate;  // dt [rows, columns], rows `gate_stride` elements apart
  const void* up;
  void* y;  // dt [rows, columns]
  int64_t gate_stride;
  int64_t up_stride;
  int64_t elements;  // rows · columns
  int32_t columns;
  int32_t kind;  // GateKind
};
enum GateKind : int32_t { kGateSilu, kGateGeluTanh, kGateRelu };
constexpr int kGateThreads = 256;

}  // namespace lockstep::cuda
