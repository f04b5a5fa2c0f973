#include "runtime/backends/cpu/kernels/int8.h"

#include <algorithm>

#include "runtime/backends/cpu/kernels/built_kernels.h"

namespace lockstep::cpu {

// One for each name in LOCKSTEP_BUILT_INT8_ISAS, set by the build.
#define LOCKSTEP_ISA(name)             \
  namespace int8_##name {              \
    extern const Int8Kernels kKernels; \
  }
LOCKSTEP_BUILT_INT8_ISAS
#undef LOCKSTEP_ISA

namespace {

#define LOCKSTEP_ISA(name) {#name, &int8_##name::kKernels},
constexpr BuiltKernels<Int8Kernels> kBuilt[] = {LOCKSTEP_BUILT_INT8_ISAS};
#undef LOCKSTEP_ISA

std::string_view name_of(Int8Isa isa) {
  switch (isa) {
    case Int8Isa::kPortable: return "portable";
    case Int8Isa::kAvx2: return "avx2";
    case Int8Isa::kAvxVnni: return "avx_vnni";
    case Int8Isa::kAvx512: return "avx512";
    case Int8Isa::kAvx512Vnni: return "avx512_vnni";
    case Int8Isa::kAmx: return "amx";
  }
  return "unknown";
}

bool has_avx_vnni() { return __builtin_cpu_supports("avxvnni"); }
bool has_avx512_vnni() { return __builtin_cpu_supports("avx512vnni"); }

}  // namespace

std::vector<Int8Isa> available_int8_isas() {
  const Isa best = machine_isa();
  std::vector<Int8Isa> isas{Int8Isa::kPortable};
  if (best >= Isa::kAvx2) isas.push_back(Int8Isa::kAvx2);
  if (best >= Isa::kAvx2 && has_avx_vnni()) isas.push_back(Int8Isa::kAvxVnni);
  if (best >= Isa::kAvx512) isas.push_back(Int8Isa::kAvx512);
  if (best >= Isa::kAvx512 && has_avx512_vnni()) isas.push_back(Int8Isa::kAvx512Vnni);
  if (best >= Isa::kAmx) isas.push_back(Int8Isa::kAmx);
  std::erase_if(isas, [](Int8Isa isa) { return find_kernels(kBuilt, name_of(isa)) == nullptr; });
  return isas;
}

const Int8Kernels& int8_kernels_of(Int8Isa isa) { return kernels_at(kBuilt, name_of(isa)); }

const Int8Kernels& int8_kernels_for(Isa isa) {
  if (isa == Isa::kPortable) return int8_kernels_of(Int8Isa::kPortable);
  if (isa == Isa::kAvx2) return int8_kernels_of(has_avx_vnni() ? Int8Isa::kAvxVnni : Int8Isa::kAvx2);
  if (isa == Isa::kAmx) return int8_kernels_of(Int8Isa::kAmx);
  return int8_kernels_of(has_avx512_vnni() ? Int8Isa::kAvx512Vnni : Int8Isa::kAvx512);
}

}  // namespace lockstep::cpu
