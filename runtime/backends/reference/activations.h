// The activation functions by their names in graphs.
#pragma once

#include <string_view>

#include "runtime/backends/aten/operations.h"

namespace lockstep::reference {

/// dst [R, N] = the activation `name` (silu, sigmoid, gelu, gelu_tanh, relu or squared_relu) of x [R, N].
Result<void> activate(std::string_view name, aten::ConstMatrix x, aten::Matrix dst);

}  // namespace lockstep::reference
