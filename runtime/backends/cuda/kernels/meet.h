// The meeting of ranks.
//
//   rank 0   ready ─► flag at every rank ─┐             A block waits for the same block of every rank. Flags count up
//   rank 1   ready ─► flag at every rank ─┼─► read all  and are never cleared: who sees the flag of meeting i + 1 knows
//   rank 2   ready ─► flag at every rank ─┘             that the peer is done with what it read after meeting i.
#pragma once

#include "runtime/backends/cuda/kernels/device.h"
#include "runtime/backends/cuda/kernels/parameters.h"

namespace lockstep::cuda {

/// Tells every rank that this block's part is ready, and waits for theirs. Gives up where one does not come. A kernel
/// that meets again counts its meetings in `further`.
LOCKSTEP_DEVICE void meet_ranks(const Meeting& m, uint32_t further = 0) {
  sync_block();  // what the block has written is before the flags
  const int peer = thread_index();
  if (peer < m.ranks) {
    const uint32_t epoch = *m.step * m.meetings + m.index + further + 1;
    store_release(m.flags[peer] + m.rank * kMostBlocks + block_index(), epoch);
    const uint32_t* flag = m.flags[m.rank] + peer * kMostBlocks + block_index();
    const uint64_t begin = device_time();
    while (static_cast<int32_t>(load_acquire(flag) - epoch) < 0) {
      // A rank that did not come once is not waited for again.
      if (load_acquire(m.abort) != 0 || load_acquire(m.missing) != 0) break;
      if (device_time() - begin > m.patience) {
        store_release(m.missing, 1u + static_cast<uint32_t>(peer));
        break;
      }
      look_later();
    }
  }
  sync_block();
}

}  // namespace lockstep::cuda
