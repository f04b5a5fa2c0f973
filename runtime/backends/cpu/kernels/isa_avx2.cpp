#define LOCKSTEP_CPU_ISA isa_avx2
#include "runtime/backends/cpu/kernels/table.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

extern const Kernels kKernels;
const Kernels kKernels = make_kernels(Isa::kAvx2);

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
