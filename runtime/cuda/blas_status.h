// cuBLASLt's status codes as errors of this program.
#pragma once

#include <string_view>

#include "runtime/core/result.h"
#include "runtime/cuda/blas_abi.h"

namespace lockstep::cu {

/// Ok, or "[runtime/cuda] cannot multiply …: found cuBLASLt's status 15 NOT_SUPPORTED (…), expected success; …".
/// `operation` is "multiply …".
Result<void> check(BlasStatus status, std::string_view operation);

}  // namespace lockstep::cu
