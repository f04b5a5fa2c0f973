// Sums over ranks by reading peers' memory: one kernel, no library, the additions of runtime/core/block_tree.h.
#include "runtime/backends/cuda/kernels/meet.h"
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/rows.h"

namespace lockstep::cuda {
namespace {

struct SumShared {
  float roots[kMostRoots][kMeetThreads];  // only as many as there are
};

template <typename Rows>
LOCKSTEP_DEVICE void finish(const SumParameters& p, int64_t i, float sum) {
  using Element = typename Rows::Element;
  const Element* residual = static_cast<const Element*>(p.residual);
  const float rounded = Rows::round(sum);
  static_cast<Element*>(p.y)[i] =
      residual == nullptr ? Rows::write(sum) : Rows::write(plus(rounded, Rows::read(residual[i])));
}

LOCKSTEP_DEVICE void add_roots(const SumParameters& p) {
  SumShared& shared =
      shared_memory_of<SumShared>(p.plan[p.meeting.ranks] * kMeetThreads * static_cast<int>(sizeof(float)));
  const int own = thread_index();
  const int32_t* additions = p.plan + p.meeting.ranks + 1;
  const int64_t plane = static_cast<int64_t>(p.rows.rows) * p.columns;
  const int64_t elements = static_cast<int64_t>(used(p.rows)) * p.columns;
  const int64_t stride = static_cast<int64_t>(block_count()) * thread_count();
  for (int64_t i = static_cast<int64_t>(block_index()) * thread_count() + own; i < elements; i += stride) {
    for (int rank = 0; rank < p.meeting.ranks; ++rank) {
      for (int root = p.plan[rank]; root < p.plan[rank + 1]; ++root) {
        shared.roots[root][own] = p.roots[rank][(root - p.plan[rank]) * plane + i];
      }
    }
    for (int step = 0; step < p.additions; ++step) {
      float& left = shared.roots[additions[2 * step]][own];
      left = plus(left, shared.roots[additions[2 * step + 1]][own]);
    }
    const float sum = shared.roots[p.result][own];
    if (p.y_type == kF32) {
      finish<F32Rows>(p, i, sum);
    } else if (p.y_type == kBf16) {
      finish<Bf16Rows>(p, i, sum);
    } else {
      finish<F16Rows>(p, i, sum);
    }
  }
}

}  // namespace

LOCKSTEP_KERNEL(sum_of_ranks, SumParameters, kMeetThreads) {
  meet_ranks(p.meeting);
  add_roots(p);
}

LOCKSTEP_KERNEL(sum_of_roots, SumParameters, kMeetThreads) {
  follow_previous();
  add_roots(p);
}

}  // namespace lockstep::cuda
