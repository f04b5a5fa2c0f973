#include "runtime/backends/cpu/kernels/kernels.h"

#include "runtime/backends/cpu/kernels/built_kernels.h"

namespace lockstep::cpu {

// One for each name in LOCKSTEP_BUILT_ISAS, set by the build.
#define LOCKSTEP_ISA(name)         \
  namespace isa_##name {           \
    extern const Kernels kKernels; \
  }
LOCKSTEP_BUILT_ISAS
#undef LOCKSTEP_ISA

namespace {

#define LOCKSTEP_ISA(name) {#name, &isa_##name::kKernels},
constexpr BuiltKernels<Kernels> kBuilt[] = {LOCKSTEP_BUILT_ISAS};
#undef LOCKSTEP_ISA

}  // namespace

const Kernels& kernels_for(Isa isa) { return kernels_at(kBuilt, to_string(isa)); }

}  // namespace lockstep::cpu
