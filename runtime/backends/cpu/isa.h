// The instruction sets of the kernels, and the choice between them at run time.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace lockstep::cpu {

/// In ascending order; a machine with one of them has all earlier ones.
enum class Isa {
  kPortable,    // available on every machine
  kAvx2,        // AVX2, FMA, F16C
  kAvx512,      // AVX-512 F, BW, DQ, VL
  kAvx512Bf16,  // the same and bfloat16 dot products
  kAmx,         // the same and tile products of bfloat16 pairs and of bytes
};

std::string_view to_string(Isa isa);
/// The inverse; empty for any other text.
std::optional<Isa> isa_of(std::string_view name);

/// The most capable instruction set of this machine (and of its operating system).
Isa machine_isa();

/// The instruction sets with kernels in this build (LOCKSTEP_CPU_ISAS), ascending; the first is the portable one.
std::vector<Isa> built_isas();

/// The instruction sets of the build that this machine has, ascending.
std::vector<Isa> available_isas();

/// The most capable of them.
Isa best_isa();

/// How far ahead of its reads the program prefetches a stream of weights, in bytes; 0: not at all.
struct StreamPrefetch {
  int64_t far = 0;   // into the second-level cache
  int64_t near = 0;  // into the first-level cache
};

/// What suits this machine: Intel's cores read a single stream slowly by their own prefetchers; on others (Zen 4) those
/// do better than ours (docs/performance.md), and `otherwise` stands. Never changes a result.
StreamPrefetch stream_prefetch(StreamPrefetch otherwise = {});

}  // namespace lockstep::cpu
