// The 8-bit product of two matrices, as defined in OPERATIONS.md.
#pragma once

#include "runtime/backends/aten/operations.h"
#include "runtime/core/int8_groups.h"

namespace lockstep::reference {

/// dst [T, N] = Σ over `groups` of K, in order, of (integers of x · integers of wᵀ) · scale of w · scale of x;
/// x [T, K], w [N, K].
Result<void> multiply_int8(aten::ConstMatrix x, aten::ConstMatrix w, const Int8Groups& groups, aten::Matrix dst);

}  // namespace lockstep::reference
