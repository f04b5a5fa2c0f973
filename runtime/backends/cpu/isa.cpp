#include "runtime/backends/cpu/isa.h"

#include <algorithm>

#include "runtime/core/cpu_features.h"
#include "runtime/core/tile_unit.h"

namespace lockstep::cpu {
namespace {

constexpr Isa kIsas[] = {Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16, Isa::kAmx};

#define LOCKSTEP_ISA(name) #name,
constexpr std::string_view kBuilt[] = {LOCKSTEP_BUILT_ISAS};
#undef LOCKSTEP_ISA

}  // namespace

std::string_view to_string(Isa isa) {
  switch (isa) {
    case Isa::kPortable: return "portable";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
    case Isa::kAvx512Bf16: return "avx512_bf16";
    case Isa::kAmx: return "amx";
  }
  return "unknown";
}

std::optional<Isa> isa_of(std::string_view name) {
  for (const Isa isa : kIsas) {
    if (to_string(isa) == name) return isa;
  }
  return std::nullopt;
}

Isa machine_isa() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c()) {
    return Isa::kPortable;
  }
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    return Isa::kAvx2;
  }
  if (!__builtin_cpu_supports("avx512bf16")) return Isa::kAvx512;
  return has_tile_unit() ? Isa::kAmx : Isa::kAvx512Bf16;
}

std::vector<Isa> built_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : kIsas) {
    if (std::ranges::find(kBuilt, to_string(isa)) != std::end(kBuilt)) isas.push_back(isa);
  }
  return isas;
}

std::vector<Isa> available_isas() {
  std::vector<Isa> isas = built_isas();
  std::erase_if(isas, [best = machine_isa()](Isa isa) { return isa > best; });
  return isas;
}

Isa best_isa() { return available_isas().back(); }

StreamPrefetch stream_prefetch(StreamPrefetch otherwise) {
  static const bool is_intel = [] {
    __builtin_cpu_init();
    return __builtin_cpu_is("intel") != 0;
  }();
  return is_intel ? StreamPrefetch{.far = 12288, .near = 2048} : otherwise;
}

}  // namespace lockstep::cpu
