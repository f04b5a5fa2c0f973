#define LOCKSTEP_CPU_ISA isa_amx
#include "runtime/backends/cpu/kernels/table.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

extern const Kernels kKernels;
const Kernels kKernels = make_kernels(Isa::kAmx);

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
