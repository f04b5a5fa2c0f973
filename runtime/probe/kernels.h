// The timed loops, one file with its own flags per instruction set. `read_kernels` and `dot_kernels` return those
// supported by this machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/probe/probe.h"

namespace lockstep::probe {

/// Buffer sizes are multiples of this, and buffers are aligned to 64.
constexpr size_t kReadGranule = 1 << 16;

/// Reads every byte once and returns the XOR of all 64-bit words, so all kernels have the same result.
struct ReadKernel {
  std::string_view name;
  uint64_t (*run)(const std::byte* data, size_t bytes);
};

/// Adds a · b to every accumulator `rounds` times, in registers, and returns the sum of all accumulators. The sum is
/// exactly `flops_per_round` / 2 · rounds · a · b while float32 can represent it (a multiply-add counts 2).
struct DotKernel {
  std::string_view name;
  Precision precision = Precision::kFloat32;
  int64_t flops_per_round = 0;
  double (*run)(int64_t rounds, float a, float b);
};

/// The kernels that this machine can run with `instructions` or less, at least four that read.
std::vector<ReadKernel> read_kernels(Instructions instructions = Instructions::kAll);
std::vector<DotKernel> dot_kernels(Precision precision, Instructions instructions = Instructions::kAll);

// By instruction set; only for machines that have it. Spans of constants, because files compiled for one instruction
// set must not contain code that other files could be linked to.
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
