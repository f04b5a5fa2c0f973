// Sums over ranks by reading peers' memory: one kernel, no library, the additions of runtime/core/block_tree.h.
#include "runtime/backends/cuda/kernels/meet.h"
#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/backends/cuda/kernels/sum_end.h"

namespace lockstep::cuda {
namespace {

LOCKSTEP_DEVICE void add_roots(const SumParameters& p) {
  SumShared& shared = shared_roots(p.plan[p.meeting.ranks]);
  const int own = thread_index();
  const int64_t plane = static_cast<int64_t>(p.rows.rows) * p.columns;
  const int64_t elements = static_cast<int64_t>(used(p.rows)) * p.columns;
  const int64_t stride = static_cast<int64_t>(block_count()) * thread_count();
  for (int64_t i = static_cast<int64_t>(block_index()) * thread_count() + own; i < elements; i += stride) {
    for (int rank = 0; rank < p.meeting.ranks; ++rank) {
      for (int root = p.plan[rank]; root < p.plan[rank + 1]; ++root) {
        shared.roots[root][own] = p.roots[rank][(root - p.plan[rank]) * plane + i];
      }
    }
    add_pairs(shared, p.plan + p.meeting.ranks + 1, p.additions);
    write_sum(p, i, shared.roots[p.result][own]);
  }
}

}  // namespace

LOCKSTEP_KERNEL(sum_of_ranks, SumParameters, kMeetThreads) {
  meet_ranks(p.meeting);
  add_roots(p);
}

LOCKSTEP_KERNEL(sum_of_roots, SumParameters, kMeetThreads) { add_roots(p); }

}  // namespace lockstep::cuda
