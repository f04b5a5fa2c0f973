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

}  // namespace lockstep::cuda
