#define LOCKSTEP_CPU_ISA int8_avx512_vnni
#include "runtime/backends/cpu/kernels/product_int8.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

extern const Int8Kernels kKernels;
const Int8Kernels kKernels = make_int8_kernels();

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
