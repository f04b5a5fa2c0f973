// NCCL's result codes as errors.
#pragma once

#include <span>
#include <string_view>

#include "runtime/core/result.h"
#include "transport/nccl/abi.h"

namespace lockstep::transport::nccl {

/// One code.
struct ResultMeaning {
  ncclResult_t result = ncclSuccess;
  std::string_view name;  // "ncclSystemError"
  ErrorKind kind = ErrorKind::kInternal;
  std::string_view meaning;
  std::string_view advice;  // to the user
};

/// The failures that this program can meet, by code.
std::span<const ResultMeaning> result_meanings();

/// The error of a call with a failing `result`: "[transport/nccl] cannot gather: found result 2 ncclSystemError (…),
/// expected success; …". `operation` is "gather"; `last` is the library's text about it, may be empty. An unknown code
/// is `kUnavailable`.
Error error_of(ncclResult_t result, std::string_view operation, std::string_view last = {});

}  // namespace lockstep::transport::nccl
