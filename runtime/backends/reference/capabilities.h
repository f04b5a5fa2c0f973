// The backend's capabilities, compiled into the module and into its loader.
#pragma once

#include "runtime/device/backend.h"

namespace lockstep::reference {

inline device::Capabilities capabilities() {
  return {.dtypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16},
          .rows_of_one_slot = false,
          .bounded_attention = true,
          .invariant_sums = false,  // libtorch's order of sums varies with the shape
          .recurrences = true,
          .coded_weights = device::CodedWeights::kAll,
          .rounded_experts = true,
          .coded_caches = true,
          .latent_attention = true};
}

}  // namespace lockstep::reference
