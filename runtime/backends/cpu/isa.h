// The instruction sets that the kernels are compiled for, and the choice between them at run time.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace lockstep::cpu {

/// From the least to the most capable; each machine that has one has those before it.
enum class Isa {
  kPortable,    // what every machine has
  kAvx2,        // AVX2, FMA, F16C
  kAvx512,      // AVX-512 F, BW, DQ, VL
  kAvx512Bf16,  // the same and dot products of bfloat16 pairs
  kAmx,         // the same and products of tiles, of bfloat16 pairs and of bytes
};

std::string_view to_string(Isa isa);
/// The inverse; empty for any other text.
std::optional<Isa> isa_of(std::string_view name);

/// The most capable instruction set of this machine (and of its operating system).
Isa machine_isa();

/// Those that this build has kernels for (LOCKSTEP_CPU_ISAS), ascending; the first is the portable one.
std::vector<Isa> built_isas();

/// Those of the build that this machine has, ascending.
std::vector<Isa> available_isas();

/// The most capable of them.
Isa best_isa();

}  // namespace lockstep::cpu
