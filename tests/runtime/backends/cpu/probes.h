// The limits of this machine's first core, for the benchmark. Needs AVX-512 (BF16).
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::cpu {

/// Reads `bytes` (a multiple of 4096) in `streams` streams; returns something that depends on all of it.
uint64_t read_memory(const std::byte* data, int64_t bytes, int streams);

/// Runs `repeats` × 16 independent chains of one multiply-add of float32 or of bfloat16 pairs, in registers.
float multiply_in_registers(int64_t repeats, int bits);

constexpr int kProbeChains = 16;

}  // namespace lockstep::cpu
