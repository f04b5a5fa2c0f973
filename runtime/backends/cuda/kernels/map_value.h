// Elementwise operations: the formulas of map, and of products that go on with their results.
#pragma once

#include "runtime/backends/cuda/kernels/activations.h"
#include "runtime/backends/cuda/kernels/parameters.h"

namespace lockstep::cuda {

/// The operation `kind` of x, or of x and z. Not yet rounded.
LOCKSTEP_DEVICE float map_value(int32_t kind, int32_t activation, float number, float x, float z) {
  if (kind == kMapAdd) return plus(x, z);
  if (kind == kMapMultiply) return times(x, z);
  if (kind == kMapScale) return times(x, number);
  if (kind == kMapSoftCap) return times(number, tanh_of(divide(x, number)));
  const float y = activate(activation, x);
  return kind == kMapGate ? times(y, z) : y;
}

}  // namespace lockstep::cuda
