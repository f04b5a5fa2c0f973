#include "runtime/backends/cpu/kernels/int8.h"

namespace lockstep::cpu {

namespace int8_portable {
extern const Int8Kernels kKernels;
}
namespace int8_avx2 {
extern const Int8Kernels kKernels;
}
namespace int8_avx_vnni {
extern const Int8Kernels kKernels;
}
namespace int8_avx512 {
extern const Int8Kernels kKernels;
}
namespace int8_avx512_vnni {
extern const Int8Kernels kKernels;
}
namespace int8_amx {
extern const Int8Kernels kKernels;
}

namespace {

bool has_avx_vnni() { return __builtin_cpu_supports("avxvnni"); }
bool has_avx512_vnni() { return __builtin_cpu_supports("avx512vnni"); }

}  // namespace

std::vector<Int8Isa> available_int8_isas() {
  const Isa best = best_isa();
  std::vector<Int8Isa> isas{Int8Isa::kPortable};
  if (best >= Isa::kAvx2) isas.push_back(Int8Isa::kAvx2);
  if (best >= Isa::kAvx2 && has_avx_vnni()) isas.push_back(Int8Isa::kAvxVnni);
  if (best >= Isa::kAvx512) isas.push_back(Int8Isa::kAvx512);
  if (best >= Isa::kAvx512 && has_avx512_vnni()) isas.push_back(Int8Isa::kAvx512Vnni);
  if (best >= Isa::kAmx) isas.push_back(Int8Isa::kAmx);
  return isas;
}

const Int8Kernels& int8_kernels_of(Int8Isa isa) {
  switch (isa) {
    case Int8Isa::kAmx: return int8_amx::kKernels;
    case Int8Isa::kAvx512Vnni: return int8_avx512_vnni::kKernels;
    case Int8Isa::kAvx512: return int8_avx512::kKernels;
    case Int8Isa::kAvxVnni: return int8_avx_vnni::kKernels;
    case Int8Isa::kAvx2: return int8_avx2::kKernels;
    case Int8Isa::kPortable: break;
  }
  return int8_portable::kKernels;
}

const Int8Kernels& int8_kernels_for(Isa isa) {
  if (isa == Isa::kPortable) return int8_kernels_of(Int8Isa::kPortable);
  if (isa == Isa::kAvx2) return int8_kernels_of(has_avx_vnni() ? Int8Isa::kAvxVnni : Int8Isa::kAvx2);
  if (isa == Isa::kAmx) return int8_kernels_of(Int8Isa::kAmx);
  return int8_kernels_of(has_avx512_vnni() ? Int8Isa::kAvx512Vnni : Int8Isa::kAvx512);
}

}  // namespace lockstep::cpu
