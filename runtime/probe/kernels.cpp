#include "runtime/probe/kernels.h"

#include "runtime/core/cpu_features.h"
#include "runtime/core/tile_unit.h"

namespace lockstep::probe {
namespace {

template <typename Kernel>
void append(std::vector<Kernel>& to, std::span<const Kernel> more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// What this machine has of the instructions that a probe may use.
struct Machine {
  explicit Machine(Instructions most)
      : avx2(most >= Instructions::kAvx2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")),
        avx512(most >= Instructions::kAvx512 && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw")),
        avx512_bf16(most >= Instructions::kAvx512Bf16 && avx512 && __builtin_cpu_supports("avx512bf16")),
        amx(most >= Instructions::kAmx && has_tile_unit()) {}

  bool avx2, avx512, avx512_bf16, amx;
};

}  // namespace

std::vector<ReadKernel> read_kernels(Instructions instructions) {
  const Machine machine(instructions);
  std::vector<ReadKernel> kernels;
  if (machine.avx512) append(kernels, avx512_read_kernels());
  if (machine.avx2) append(kernels, avx2_read_kernels());
  if (kernels.empty()) append(kernels, portable_read_kernels());
  return kernels;
}

std::vector<DotKernel> dot_kernels(Precision precision, Instructions instructions) {
  const Machine machine(instructions);
  std::vector<DotKernel> kernels;
  if (precision == Precision::kBFloat16) {
    if (machine.amx) append(kernels, amx_dot_kernels());
    if (machine.avx512_bf16) append(kernels, avx512_bf16_dot_kernels());
    return kernels;
  }
  if (precision == Precision::kInt8) {
    if (machine.amx) append(kernels, amx_byte_dot_kernels());
    if (machine.avx512 && __builtin_cpu_supports("avx512vnni")) append(kernels, avx512_vnni_dot_kernels());
    if (machine.avx2 && has_avx_vnni()) append(kernels, avx_vnni_dot_kernels());
    if (machine.avx2) append(kernels, avx2_byte_dot_kernels());
    return kernels;
  }
  if (machine.avx512) append(kernels, avx512_dot_kernels());
  if (machine.avx2) append(kernels, avx2_dot_kernels());
  if (kernels.empty()) append(kernels, portable_dot_kernels());
  return kernels;
}

}  // namespace lockstep::probe
