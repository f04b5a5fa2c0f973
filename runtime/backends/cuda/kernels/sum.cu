// Sums over ranks by reading peers' memory: one kernel, no library, the additions of runtime/core/block_tree.h.
//
//   rank 0   roots ready ─► flag at every rank ─┐             A block waits for the same block of every rank, then
//   reads rank 1   roots ready ─► flag at every rank ─┼─► read all, all roots. Flags count up and are never cleared: a
//   rank rank 2   roots ready ─► flag at every rank ─┘   add       that sees the flag of sum i + 1 knows that sum i was
//   read.
#include "runtime/backends/cuda/kernels/device.h"
#include "runtime/backends/cuda/kernels/parameters.h"

namespace lockstep::cuda {
namespace {

struct SumShared {
  float roots[kMostRoots][kSumThreads];  // only as many as there are
};

/// Tells every rank that this block's roots are ready, and waits for theirs. Returns early if one does not come.
LOCKSTEP_DEVICE void meet_ranks(const SumParameters& p) {
  const int peer = thread_index();
  if (peer < p.ranks) {
    const uint32_t epoch = *p.step * p.sums + p.index + 1;
    store_release(p.flags[peer] + p.rank * block_count() + block_index(), epoch);
    const uint32_t* flag = p.flags[p.rank] + peer * block_count() + block_index();
    const uint64_t begin = device_time();
    while (static_cast<int32_t>(load_acquire(flag) - epoch) < 0) {
      if (load_acquire(p.abort) != 0) break;
      if (device_time() - begin > p.patience) {
        store_release(p.missing, 1u + static_cast<uint32_t>(peer));
        break;
      }
      look_later();
    }
  }
  sync_block();
}

}  // namespace

LOCKSTEP_KERNEL(sum_of_ranks, SumParameters, kSumThreads) {
  SumShared& shared = shared_memory_of<SumShared>(p.plan[p.ranks] * kSumThreads * static_cast<int>(sizeof(float)));
  meet_ranks(p);
  const int own = thread_index();
  const int32_t* additions = p.plan + p.ranks + 1;
  const int64_t stride = static_cast<int64_t>(block_count()) * thread_count();
  for (int64_t i = static_cast<int64_t>(block_index()) * thread_count() + own; i < p.elements; i += stride) {
    for (int rank = 0; rank < p.ranks; ++rank) {
      for (int root = p.plan[rank]; root < p.plan[rank + 1]; ++root) {
        shared.roots[root][own] = p.roots[rank][(root - p.plan[rank]) * p.elements + i];
      }
    }
    for (int step = 0; step < p.additions; ++step) {
      float& left = shared.roots[additions[2 * step]][own];
      left = plus(left, shared.roots[additions[2 * step + 1]][own]);
    }
    const float sum = shared.roots[p.result][own];
    if (p.is_float != 0) {
      const float* residual = static_cast<const float*>(p.residual);
      static_cast<float*>(p.y)[i] = residual == nullptr ? sum : plus(sum, residual[i]);
    } else {
      const Bf16* residual = static_cast<const Bf16*>(p.residual);
      const Bf16 rounded = bf16_of(sum);
      static_cast<Bf16*>(p.y)[i] =
          residual == nullptr ? rounded : bf16_of(plus(float_of(rounded), float_of(residual[i])));
    }
  }
}

}  // namespace lockstep::cuda
