#define LOCKSTEP_CPU_ISA int8_avx512_vnni
#include "runtime/backends/cpu/kernels/attend_codes.h"
#include "runtime/backends/cpu/kernels/product_int8.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

extern const Int8Kernels kKernels;
const Int8Kernels kKernels = {.few_rows = int8_few_rows,
                              .product = int8_product,
                              .tiled_product = nullptr,
                              .quantise = quantise,
                              .attend = attend_codes,
                              .split_query = split_query};

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
