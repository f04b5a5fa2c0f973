// Rows of activations as 8-bit integers times a scale.
#pragma once

#include <vector>

#include "runtime/backends/aten/operations.h"
#include "runtime/core/column_groups.h"

namespace lockstep::reference {

/// The rows of x [T, K] after quantisation in groups of `width` columns (runtime/core/int8_groups.h), as floats.
std::vector<float> quantised_rows(aten::ConstMatrix x, int64_t width);

}  // namespace lockstep::reference
