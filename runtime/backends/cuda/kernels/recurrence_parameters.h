// Parameters of the kernels of recurrent layers (parameters.h). The rows of a slot are adjacent, their positions
// consecutive.
#pragma once

#include <cstdint>

#include "runtime/backends/cuda/kernels/row_parameters.h"

namespace lockstep::cuda {

/// The rows of a step by slot.
struct RunRows {
  const int32_t* slot;      // [rows], negative: padding
  const int32_t* position;  // [rows]
  RowCount rows;
};

/// causal_conv: a block is kConvolveThreads channels of a slot; after those of all slots come the ones of padding.
struct ConvolveParameters {
  const void* x;       // dt [rows, channels], as y
  const void* weight;  // dt [channels, taps]
  void* kept;          // dt [slots, kept_rows, channels]: row p of a slot at p mod kept_rows
  void* y;
  int64_t x_stride;
  int64_t y_stride;
  RunRows runs;
  int32_t slots;
  int32_t channels;
  int32_t taps;
  int32_t kept_rows;
  int32_t activates;
  int32_t activation;
};
constexpr int kConvolveThreads = 128;

/// The heads and states of a delta rule, as in runtime/graph/OPERATIONS.md.
struct DeltaHeads {
  float* keys;     // [slots, 2 · key_heads, key_dim, block]
  float* changes;  // [slots, 2 · heads, block, value_dim]
  float* decays;   // [slots, 2 · heads, block]
  float* borders;  // [slots, 2 · heads, key_dim, value_dim]
  float* unit;     // f32 [rows, 2 · key_heads · key_dim]: this step's queries and keys, normed
  int32_t slots;
  int32_t key_heads;
  int32_t heads;
  int32_t key_dim;
  int32_t value_dim;
  int32_t block;
};

/// delta_norm: queries and keys to unit length. A block is a head of a row.
/// delta_keep: this step's keys into the states, after `delta_rule`. A block is a key head of a row.
struct DeltaRowParameters {
  const void* x;  // dt [rows, …]: queries, keys, values
  int64_t x_stride;
  RunRows runs;
  DeltaHeads heads;
  float epsilon;
};

/// delta_rule: a block is a value head of a slot; after those of all slots come the ones of padding, one each head.
struct DeltaRuleParameters {
  const void* x;            // as above
  const float* gates;       // f32 [rows, 2 · heads]: b, a
  const void* a_log;        // dt [heads]
  const void* dt_bias;      // dt [heads]
  const int32_t* head_map;  // [heads]
  void* y;                  // dt [rows, heads · value_dim]
  int64_t x_stride;
  int64_t gates_stride;
  int64_t y_stride;
  RunRows runs;
  DeltaHeads heads;
};
constexpr int kDeltaThreads = 128;
constexpr int kMostDeltaBlock = 64;

/// Of delta_rule: shares of the block's keys in a row's change and output, and of the previous block's in a border.
struct DeltaShared {
  float key_shares[kMostDeltaBlock];
  float query_shares[kMostDeltaBlock];
  float weights[kMostDeltaBlock];
  float beta;
};

}  // namespace lockstep::cuda
