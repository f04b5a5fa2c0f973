#include "runtime/backends/cpu/kernels/kernels.h"

#include <algorithm>

#include "runtime/core/check.h"

namespace lockstep::cpu {

// One for each name in LOCKSTEP_BUILT_ISAS, set by the build.
#define LOCKSTEP_ISA(name)         \
  namespace isa_##name {           \
    extern const Kernels kKernels; \
  }
LOCKSTEP_BUILT_ISAS
#undef LOCKSTEP_ISA

namespace {

struct BuiltKernels {
  std::string_view isa;
  const Kernels* kernels;
};

#define LOCKSTEP_ISA(name) {#name, &isa_##name::kKernels},
constexpr BuiltKernels kBuilt[] = {LOCKSTEP_BUILT_ISAS};
#undef LOCKSTEP_ISA

}  // namespace

const Kernels& kernels_for(Isa isa) {
  const auto* const found = std::ranges::find(kBuilt, to_string(isa), &BuiltKernels::isa);
  LOCKSTEP_CHECK(found != std::end(kBuilt), to_string(isa));
  return *found->kernels;
}

}  // namespace lockstep::cpu
