// The parameters of the kernels, as host and device see them. Addresses are of device memory. Sizes and strides are
// elements, unless they say otherwise.
//
// A kernel whose name ends with a type has a form for each: rms_norm is rms_norm_f32, rms_norm_bf16, rms_norm_f16. `dt`
// is that type. Names that end with 2 and 4 move elements of so many bytes.
#pragma once

#include <cstdint>

#include "runtime/backends/cuda/kernels/attention_parameters.h"
#include "runtime/backends/cuda/kernels/code_parameters.h"
#include "runtime/backends/cuda/kernels/product_parameters.h"
#include "runtime/backends/cuda/kernels/rank_parameters.h"
#include "runtime/backends/cuda/kernels/recurrence_parameters.h"
#include "runtime/backends/cuda/kernels/row_parameters.h"

namespace lockstep::cuda {

// Dynamic shared memory of a block, in bytes

constexpr int tile_sum_bytes(int groups) {
  return (kProductWarps + kMostLevels) * groups * kTileOutputs * kTileRows * static_cast<int>(sizeof(float));
}
constexpr int kMultiprocessorSharedBytes = 228 * 1024;  // of compute capability 9.0; each block takes 1 KiB of it
constexpr int kMostSharedBytes = 200 * 1024;            // that a block takes
constexpr int kHeadsSharedBytes = (2 * 32 + kMostHeadDim) * static_cast<int>(sizeof(float));
constexpr int kProductSharedBytes = tile_sum_bytes(4);
constexpr int kMostTilesBytes = 227 * 1024;  // of a block of product_tiles: all that compute capability 9.0 gives one
/// Levels of open sums in registers: product_tiles' newest one.
constexpr int held_levels(int groups) { return groups == kWideGroups ? 0 : 1; }
/// Stages of 128 bytes of each row, of product_tiles of each output too, and the other open sums.
constexpr int product_tiles_bytes(int groups, int levels) {
  const int rows = groups * kTileRows, outputs = kProductWarps * kTileOutputs;
  const int stages = groups == kWideGroups ? kWideStages * rows : kTilesStages * (rows + outputs);
  return stages * 128 + (levels - held_levels(groups)) * rows * outputs * static_cast<int>(sizeof(float));
}
constexpr int kProductCodesFewSharedBytes = tile_sum_bytes(1);
constexpr int kProductCodesSharedBytes = tile_sum_bytes(kCodeGroups);
constexpr int kRouteSharedBytes = 0;
constexpr int kListExpertsSharedBytes = kListThreads * static_cast<int>(sizeof(int32_t));
constexpr int experts_down_bytes(int groups) {
  return tile_sum_bytes(groups) + groups * kTileOutputs * kTileRows * static_cast<int>(sizeof(float));
}
constexpr int kExpertsInnerFewSharedBytes = 2 * tile_sum_bytes(1);
constexpr int kExpertsInnerSharedBytes = 2 * tile_sum_bytes(4);
constexpr int kExpertsDownFewSharedBytes = experts_down_bytes(1);
constexpr int kExpertsDownSharedBytes = experts_down_bytes(4);
constexpr int kExpertsInnerCodesSharedBytes = 2 * tile_sum_bytes(kCodeGroups);
constexpr int kExpertsDownCodesSharedBytes = experts_down_bytes(kCodeGroups);

}  // namespace lockstep::cuda
