// Where a sum over ranks ends: rounding, and the residual that is added.
#pragma once

#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/rows.h"

namespace lockstep::cuda {

template <typename Rows>
LOCKSTEP_DEVICE void write_rounded(void* y, const void* residual, int64_t i, float sum) {
  using Element = typename Rows::Element;
  const float rounded = Rows::round(sum);
  static_cast<Element*>(y)[i] = residual == nullptr
                                    ? Rows::write(sum)
                                    : Rows::write(plus(rounded, Rows::read(static_cast<const Element*>(residual)[i])));
}

/// Element `i` of the result; Parameters as SumParameters.
template <typename Parameters>
LOCKSTEP_DEVICE void write_sum(const Parameters& p, int64_t i, float sum) {
  if (p.y_type == kF32) {
    write_rounded<F32Rows>(p.y, p.residual, i, sum);
  } else if (p.y_type == kBf16) {
    write_rounded<Bf16Rows>(p.y, p.residual, i, sum);
  } else {
    write_rounded<F16Rows>(p.y, p.residual, i, sum);
  }
}

/// The accumulators of a block's threads: only as many as there are roots.
struct SumShared {
  float roots[kMostRoots][kMeetThreads];
};
LOCKSTEP_DEVICE SumShared& shared_roots(int roots) {
  return shared_memory_of<SumShared>(roots * kMeetThreads * static_cast<int>(sizeof(float)));
}

/// Adds a thread's accumulators in the order of the tree: pairs (dst, src).
LOCKSTEP_DEVICE void add_pairs(SumShared& shared, const int32_t* pairs, int additions) {
  const int own = thread_index();
  for (int step = 0; step < additions; ++step) {
    float& left = shared.roots[pairs[2 * step]][own];
    left = plus(left, shared.roots[pairs[2 * step + 1]][own]);
  }
}

}  // namespace lockstep::cuda
