// How fast this machine's first core reads memory, for the benchmark. Needs AVX-512.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::cpu {

/// Reads `bytes` (a multiple of 4096) in `streams` streams; returns something that depends on all of it.
uint64_t read_memory(const std::byte* data, int64_t bytes, int streams);

}  // namespace lockstep::cpu
