// Activations by the names that graphs give them.
#pragma once

#include <string_view>

#include "runtime/backends/cuda/kernels/parameters.h"
#include "runtime/core/check.h"

namespace lockstep::cuda {

inline ActivationKind activation_kind(std::string_view name) {
  if (name == "silu") return kSilu;
  if (name == "sigmoid") return kSigmoid;
  if (name == "gelu") return kGelu;
  if (name == "gelu_tanh") return kGeluTanh;
  if (name == "relu") return kRelu;
  if (name == "squared_relu") return kSquaredRelu;
  LOCKSTEP_CHECK(name == "clamped_swiglu", name);  // the verifier knows no others
  return kClampedSwiglu;
}

}  // namespace lockstep::cuda
