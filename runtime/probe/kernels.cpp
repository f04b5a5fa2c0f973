#include "runtime/probe/kernels.h"

#include "runtime/core/tile_unit.h"

namespace lockstep::probe {
namespace {

template <typename Kernel>
void append(std::vector<Kernel>& to, std::span<const Kernel> more) {
  to.insert(to.end(), more.begin(), more.end());
}

bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"); }

}  // namespace

std::vector<ReadKernel> read_kernels() {
  std::vector<ReadKernel> kernels;
  if (has_avx512()) append(kernels, avx512_read_kernels());
  if (has_avx2()) append(kernels, avx2_read_kernels());
  if (kernels.empty()) append(kernels, portable_read_kernels());
  return kernels;
}

std::vector<DotKernel> dot_kernels(Precision precision) {
  std::vector<DotKernel> kernels;
  if (precision == Precision::kBFloat16) {
    const bool has = has_avx512() && __builtin_cpu_supports("avx512bf16");
    if (has_tile_unit()) append(kernels, amx_dot_kernels());
    if (has) append(kernels, avx512_bf16_dot_kernels());
    return kernels;
  }
  if (precision == Precision::kInt8) {
    if (has_tile_unit()) append(kernels, amx_byte_dot_kernels());
    if (has_avx512() && __builtin_cpu_supports("avx512vnni")) append(kernels, avx512_vnni_dot_kernels());
    if (has_avx2() && __builtin_cpu_supports("avxvnni")) append(kernels, avx_vnni_dot_kernels());
    if (has_avx2()) append(kernels, avx2_byte_dot_kernels());
    return kernels;
  }
  if (has_avx512()) append(kernels, avx512_dot_kernels());
  if (has_avx2()) append(kernels, avx2_dot_kernels());
  if (kernels.empty()) append(kernels, portable_dot_kernels());
  return kernels;
}

}  // namespace lockstep::probe
