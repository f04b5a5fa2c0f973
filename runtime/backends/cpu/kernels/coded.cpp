#include "runtime/backends/cpu/kernels/coded.h"

#include <algorithm>

#include "runtime/backends/cpu/kernels/built_kernels.h"
#include "runtime/core/cpu_features.h"

namespace lockstep::cpu {

// One for each name in LOCKSTEP_BUILT_CODED_ISAS, set by the build.
#define LOCKSTEP_ISA(name)            \
  namespace name {                    \
  extern const CodedKernels kKernels; \
  }
LOCKSTEP_BUILT_CODED_ISAS
#undef LOCKSTEP_ISA

namespace {

#define LOCKSTEP_ISA(name) {#name, &name::kKernels},
constexpr BuiltKernels<CodedKernels> kBuilt[] = {LOCKSTEP_BUILT_CODED_ISAS};
#undef LOCKSTEP_ISA

std::string_view name_of(CodedIsa isa) {
  switch (isa) {
    case CodedIsa::kFloatsPortable: return "floats_portable";
    case CodedIsa::kFloatsAvx2: return "floats_avx2";
    case CodedIsa::kFloatsAvx512: return "floats_avx512";
    case CodedIsa::kBytesPortable: return "bytes_portable";
    case CodedIsa::kBytesAvx2: return "bytes_avx2";
    case CodedIsa::kBytesAvxVnni: return "bytes_avx_vnni";
    case CodedIsa::kBytesAvx512: return "bytes_avx512";
    case CodedIsa::kBytesAvx512Vnni: return "bytes_avx512_vnni";
    case CodedIsa::kBytesAmx: return "bytes_amx";
  }
  return "unknown";
}

bool has_avx512_vnni() { return __builtin_cpu_supports("avx512vnni"); }

/// The instruction set that a machine needs at least.
Isa least_isa(CodedIsa isa) {
  switch (isa) {
    case CodedIsa::kFloatsPortable:
    case CodedIsa::kBytesPortable: return Isa::kPortable;
    case CodedIsa::kFloatsAvx2:
    case CodedIsa::kBytesAvx2:
    case CodedIsa::kBytesAvxVnni: return Isa::kAvx2;
    case CodedIsa::kFloatsAvx512:
    case CodedIsa::kBytesAvx512:
    case CodedIsa::kBytesAvx512Vnni: return Isa::kAvx512;
    case CodedIsa::kBytesAmx: return Isa::kAmx;
  }
  return Isa::kAmx;
}

bool has(CodedIsa isa) {
  if (machine_isa() < least_isa(isa)) return false;
  if (isa == CodedIsa::kBytesAvxVnni) return has_avx_vnni();
  return isa != CodedIsa::kBytesAvx512Vnni || has_avx512_vnni();
}

CodedIsa bytes_for(Isa isa) {
  if (isa == Isa::kPortable) return CodedIsa::kBytesPortable;
  if (isa == Isa::kAvx2) return has_avx_vnni() ? CodedIsa::kBytesAvxVnni : CodedIsa::kBytesAvx2;
  if (isa == Isa::kAmx) return CodedIsa::kBytesAmx;
  return has_avx512_vnni() ? CodedIsa::kBytesAvx512Vnni : CodedIsa::kBytesAvx512;
}

CodedIsa floats_for(Isa isa) {
  if (isa == Isa::kPortable) return CodedIsa::kFloatsPortable;
  return isa == Isa::kAvx2 ? CodedIsa::kFloatsAvx2 : CodedIsa::kFloatsAvx512;
}

}  // namespace

std::vector<CodedIsa> available_coded_isas() {
  std::vector<CodedIsa> isas;
  for (int i = 0; i <= static_cast<int>(CodedIsa::kBytesAmx); ++i) {
    const auto isa = static_cast<CodedIsa>(i);
    if (find_kernels(kBuilt, name_of(isa)) != nullptr && has(isa)) isas.push_back(isa);
  }
  return isas;
}

const CodedKernels& coded_kernels_of(CodedIsa isa) { return kernels_at(kBuilt, name_of(isa)); }

const CodedKernels& coded_kernels_for(Isa isa, DotKind dots) {
  return coded_kernels_of(has_bytes(dots) ? bytes_for(isa) : floats_for(isa));
}

}  // namespace lockstep::cpu
