// Attention of many rows in 16 bits, over caches of elements.
#include "runtime/backends/cuda/kernels/attend_rows_16.h"

namespace lockstep::cuda {

LOCKSTEP_KERNEL_HELD(attend_rows_bf16, AttendRowsParameters, kRows16Threads, 1) {
  RowsBlock<Bf16Rows, 1, false>(p).run();
}
LOCKSTEP_KERNEL_HELD(attend_rows_f16, AttendRowsParameters, kRows16Threads, 1) {
  RowsBlock<F16Rows, 1, false>(p).run();
}
LOCKSTEP_KERNEL_HELD(attend_pairs_bf16, AttendRowsParameters, kRows16Threads, 1) {
  RowsBlock<Bf16Rows, 2, false>(p).run();
}
LOCKSTEP_KERNEL_HELD(attend_pairs_f16, AttendRowsParameters, kRows16Threads, 1) {
  RowsBlock<F16Rows, 2, false>(p).run();
}

}  // namespace lockstep::cuda
