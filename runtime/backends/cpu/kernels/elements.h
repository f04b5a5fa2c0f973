// Elements of floating-point types, sixteen at a time. Included by the isa_*.cpp and int8_*.cpp files after lanes.h.
#pragma once

#include "runtime/backends/cpu/kernels/lanes.h"

namespace lockstep::cpu::LOCKSTEP_CPU_ISA {

/// A floating-point type as a value, for template selection.
template <typename T>
struct TypeTag {
  using Type = T;
};

template <typename Function>
LOCKSTEP_LANES_INLINE void with_type(DType dtype, Function function) {
  if (dtype == DType::kFloat32) return function(TypeTag<float>{});
  if (dtype == DType::kBFloat16) return function(TypeTag<BFloat16>{});
  function(TypeTag<Float16>{});
}

/// Sixteen elements from `at` on (or the `n` that are left), as float32.
template <typename T>
LOCKSTEP_LANES_INLINE Lanes read(const std::byte* data, int64_t at, int64_t n) {
  const T* p = reinterpret_cast<const T*>(data) + at;
  return n >= kLanes ? load(p) : load(p, static_cast<int>(n));
}
template <typename T>
LOCKSTEP_LANES_INLINE void write(std::byte* data, int64_t at, Lanes value, int64_t n) {
  T* p = reinterpret_cast<T*>(data) + at;
  if (n >= kLanes) return store(p, value);
  store(p, value, static_cast<int>(n));
}

}  // namespace lockstep::cpu::LOCKSTEP_CPU_ISA
