// The fold of many tiles as a launch of its own, in which every query head has blocks.
#include "runtime/backends/cuda/kernels/tile_units.h"

namespace lockstep::cuda {
namespace {

template <typename Rows>
LOCKSTEP_DEVICE void attend_fold(const AttendTilesParameters& p) {
  follow_previous();
  const AttendParameters& a = p.attend;
  const int parts = (a.value_columns + kAttendThreads - 1) / kAttendThreads;
  const int row = block_index() / parts / a.heads;
  const int32_t head = block_index() / parts % a.heads;
  const int first = block_index() % parts * kAttendThreads;
  const int end = first + kAttendThreads;
  if (row >= used(a.rows) || a.slot[row] < 0) return;
  const int tiles = needed_by(a, seen_by(a, row)).count;
  fold_heads<Rows, 1>(p, row, &head, 1, {first, end < a.value_columns ? end : a.value_columns}, tiles,
                      shared_memory<FoldShared>());
}

}  // namespace

LOCKSTEP_KERNEL(attend_fold_f32, AttendTilesParameters, kAttendThreads) { attend_fold<F32Rows>(p); }
LOCKSTEP_KERNEL(attend_fold_bf16, AttendTilesParameters, kAttendThreads) { attend_fold<Bf16Rows>(p); }
LOCKSTEP_KERNEL(attend_fold_f16, AttendTilesParameters, kAttendThreads) { attend_fold<F16Rows>(p); }

}  // namespace lockstep::cuda
