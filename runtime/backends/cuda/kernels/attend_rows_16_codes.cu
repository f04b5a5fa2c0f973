// Attention of many rows in 16 bits, over caches in 8 bits.
#include "runtime/backends/cuda/kernels/attend_rows_16.h"

namespace lockstep::cuda {

LOCKSTEP_KERNEL_HELD(attend_rows_codes_bf16, AttendRowsParameters, kRows16Threads, 1) {
  RowsBlock<Bf16Rows, 1, true>(p).run();
}
LOCKSTEP_KERNEL_HELD(attend_rows_codes_f16, AttendRowsParameters, kRows16Threads, 1) {
  RowsBlock<F16Rows, 1, true>(p).run();
}
LOCKSTEP_KERNEL_HELD(attend_pairs_codes_bf16, AttendRowsParameters, kRows16Threads, 1) {
  RowsBlock<Bf16Rows, 2, true>(p).run();
}
LOCKSTEP_KERNEL_HELD(attend_pairs_codes_f16, AttendRowsParameters, kRows16Threads, 1) {
  RowsBlock<F16Rows, 2, true>(p).run();
}

}  // namespace lockstep::cuda
