// Norms of a row by the threads of a block: the formulas of every kernel that norms, alone or ahead of other work.
//
// Thread i adds elements i, i + 256, …; the lanes of a warp meet in a butterfly, then the warps. A block of fewer than
// 256 threads gives the same bits where it has a thread for each column: the threads that it lacks would add zeros.
#pragma once

#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/rows.h"
#include "runtime/backends/cuda/kernels/sums.h"

namespace lockstep::cuda {

/// Shared memory of one row's norm.
struct NormShared {
  float sums[kWarpLanes];
  float squares[kWarpLanes];
};

/// The mean of a row's elements.
template <typename Read>
LOCKSTEP_DEVICE float mean_of(int columns, Read read, float (&shared)[kWarpLanes]) {
  float sum = 0.0f;
  for (int i = thread_index(); i < columns; i += thread_count()) sum = plus(sum, read(i));
  return divide(block_sum(sum, shared), static_cast<float>(columns));
}

/// The mean of the squares of a row's elements.
template <typename Read>
LOCKSTEP_DEVICE float mean_square_of(int columns, Read read, float (&shared)[kWarpLanes]) {
  float squares = 0.0f;
  for (int i = thread_index(); i < columns; i += thread_count()) {
    const float value = read(i);
    squares = madd(value, value, squares);
  }
  return divide(block_sum(squares, shared), static_cast<float>(columns));
}

/// (w + offset) · round(x / sqrt(mean(x²) + epsilon)), in which only a norm without offset rounds the inner value.
/// `read(i)` is an element of x; `write(i, value)` takes one of the result.
template <typename Rows, typename Read, typename Write>
LOCKSTEP_DEVICE void rms_norm_row(const Norm& norm, int columns, Read read, Write write, NormShared& shared) {
  const auto* weight = static_cast<const typename Rows::Element*>(norm.weight);
  const float mean = mean_square_of(columns, read, shared.squares);
  const float inverse = divide(1.0f, square_root(plus(mean, norm.epsilon)));
  for (int i = thread_index(); i < columns; i += thread_count()) {
    float value = times(read(i), inverse);
    if (norm.has_offset == 0) value = Rows::round(value);
    write(i, times(plus(weight == nullptr ? 1.0f : Rows::read(weight[i]), norm.offset), value));
  }
}

/// (w + offset) · (x − mean) / sqrt(variance + epsilon) + b.
template <typename Rows, typename Read, typename Write>
LOCKSTEP_DEVICE void layer_norm_row(const Norm& norm, int columns, Read read, Write write, NormShared& shared) {
  using Element = typename Rows::Element;
  const float mean = mean_of(columns, read, shared.sums);
  const auto distance = [&](int i) { return plus(read(i), -mean); };
  const float variance = mean_square_of(columns, distance, shared.squares);
  const float root = square_root(plus(variance, norm.epsilon));
  for (int i = thread_index(); i < columns; i += thread_count()) {
    const float weight = plus(Rows::read(static_cast<const Element*>(norm.weight)[i]), norm.offset);
    const float bias = norm.bias == nullptr ? 0.0f : Rows::read(static_cast<const Element*>(norm.bias)[i]);
    write(i, plus(times(weight, divide(distance(i), root)), bias));
  }
}

}  // namespace lockstep::cuda
