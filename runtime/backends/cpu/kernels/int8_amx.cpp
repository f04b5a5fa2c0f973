#define LOCKSTEP_CPU_ISA int8_amx
#include "runtime/backends/cpu/kernels/attend_codes.h"
#include "runtime/backends/cpu/kernels/int8_tiles.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

extern const Int8Kernels kKernels;
const Int8Kernels kKernels = {.few_rows = int8_few_rows,
                              .product = int8_product,
                              .tiled_product = tiled_int8_product,
                              .quantise = quantise,
                              .attend = attend_codes,
                              .split_query = split_query};

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
