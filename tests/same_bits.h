// Equality of float32 to the bit.
#pragma once

#include <cstring>
#include <span>

namespace lockstep {

/// Whether both have the same numbers: 0 and -0 differ, and so do two NaNs of other bits.
inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

}  // namespace lockstep
