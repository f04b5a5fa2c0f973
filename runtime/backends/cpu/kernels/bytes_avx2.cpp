#define LOCKSTEP_CPU_ISA bytes_avx2
// clang-format off: dots before the loops that use them
#include "runtime/backends/cpu/kernels/dots_bytes.h"
#include "runtime/backends/cpu/kernels/product_coded.h"
// clang-format on

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

extern const CodedKernels kKernels;
const CodedKernels kKernels = make_coded_kernels();

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
