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

/// (w + offset) · round(x / sqrt(mean(x²) + epsilon)), in which only a norm without offset rounds the inner value.
/// `read(i)` is an element of x; `write(i, value)` takes one of the result.
template <typename Rows, typename Read, typename Write>
LOCKSTEP_DEVICE void rms_norm_row(const Norm& norm, int columns, Read read, Write write, NormShared& shared) {
  const auto* weight = static_cast<const typename Rows::Element*>(norm.weight);
  float squares = 0.0f;
  for (int i = thread_index(); i < columns; i += thread_count()) {
    const float value = read(i);
    squares = madd(value, value, squares);
  }
  squares = block_sum(squares, shared.squares);
  const float mean = divide(squares, static_cast<float>(columns));
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
  const float count = static_cast<float>(columns);
  float sum = 0.0f;
  for (int i = thread_index(); i < columns; i += thread_count()) sum = plus(sum, read(i));
  const float mean = divide(block_sum(sum, shared.sums), count);
  float squares = 0.0f;
  for (int i = thread_index(); i < columns; i += thread_count()) {
    const float distance = plus(read(i), -mean);
    squares = madd(distance, distance, squares);
  }
  const float variance = divide(block_sum(squares, shared.squares), count);
  const float root = square_root(plus(variance, norm.epsilon));
  for (int i = thread_index(); i < columns; i += thread_count()) {
    const float weight = plus(Rows::read(static_cast<const Element*>(norm.weight)[i]), norm.offset);
    const float bias = norm.bias == nullptr ? 0.0f : Rows::read(static_cast<const Element*>(norm.bias)[i]);
    write(i, plus(times(weight, divide(plus(read(i), -mean), root)), bias));
  }
}

}  // namespace lockstep::cuda
