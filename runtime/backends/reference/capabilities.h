// What the backend offers: known on both sides of the module's border.
#pragma once

#include "runtime/device/backend.h"

namespace lockstep::reference {

inline device::Capabilities capabilities() {
  return {.dtypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16},
          .rows_of_one_slot = false,
          .bounded_attention = true,
          .invariant_sums = false};  // libtorch's products sum in an order that varies with the shape
}

}  // namespace lockstep::reference
