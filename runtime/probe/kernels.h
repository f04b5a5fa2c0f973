// The loops that are timed. Each instruction set has its own file with its own flags; `read_kernels` and `dot_kernels`
// give those that run on this machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/probe/probe.h"

namespace lockstep::probe {

/// Buffers are whole multiples of this, and aligned to 64.
constexpr size_t kReadGranule = 1 << 16;

/// Reads every byte once and returns the exclusive or of all 64-bit words, so every kernel gives the same answer.
struct ReadKernel {
  std::string_view name;
  uint64_t (*run)(const std::byte* data, size_t bytes);
};

/// Adds a · b to every accumulator `rounds` times, in registers, and returns the sum of all accumulators: exactly
/// `flops_per_round` / 2 · rounds · a · b while that is a number that float32 holds (2 a multiply-add).
struct DotKernel {
  std::string_view name;
  Precision precision = Precision::kFloat32;
  int64_t flops_per_round = 0;
  double (*run)(int64_t rounds, float a, float b);
};

/// The kernels that this machine can run with `instructions` or less, at least four that read.
std::vector<ReadKernel> read_kernels(Instructions instructions = Instructions::kAll);
std::vector<DotKernel> dot_kernels(Precision precision, Instructions instructions = Instructions::kAll);

// By instruction set; run them only where the machine has it. Spans of constants: the files that are compiled for one
// instruction set must not hold code that others might be linked to.
std::span<const ReadKernel> portable_read_kernels();
std::span<const ReadKernel> avx2_read_kernels();
std::span<const ReadKernel> avx512_read_kernels();
std::span<const DotKernel> portable_dot_kernels();
std::span<const DotKernel> avx2_dot_kernels();
std::span<const DotKernel> avx512_dot_kernels();
std::span<const DotKernel> avx512_bf16_dot_kernels();
std::span<const DotKernel> amx_dot_kernels();
std::span<const DotKernel> amx_byte_dot_kernels();
std::span<const DotKernel> avx2_byte_dot_kernels();
std::span<const DotKernel> avx_vnni_dot_kernels();
std::span<const DotKernel> avx512_vnni_dot_kernels();

}  // namespace lockstep::probe
