#include "runtime/backends/cpu/kernels/kernels.h"

namespace lockstep::cpu {

namespace isa_portable {
extern const Kernels kKernels;
}
namespace isa_avx2 {
extern const Kernels kKernels;
}
namespace isa_avx512 {
extern const Kernels kKernels;
}
namespace isa_avx512_bf16 {
extern const Kernels kKernels;
}
namespace isa_amx {
extern const Kernels kKernels;
}

const Kernels& kernels_for(Isa isa) {
  switch (isa) {
    case Isa::kAmx: return isa_amx::kKernels;
    case Isa::kAvx512Bf16: return isa_avx512_bf16::kKernels;
    case Isa::kAvx512: return isa_avx512::kKernels;
    case Isa::kAvx2: return isa_avx2::kKernels;
    case Isa::kPortable: break;
  }
  return isa_portable::kKernels;
}

}  // namespace lockstep::cpu
