// The CUDA driver's status codes, with meaning and advice.
#pragma once

#include <span>
#include <string_view>

#include "runtime/core/result.h"
#include "runtime/cuda/abi.h"

namespace lockstep::cu {

/// One code.
struct StatusMeaning {
  CUresult status = CUDA_SUCCESS;
  std::string_view name;  // "CUDA_ERROR_OUT_OF_MEMORY"
  ErrorKind kind = ErrorKind::kInternal;
  std::string_view meaning;  // "the device's memory is used up"
  std::string_view advice;   // advice to the user
};

/// The failures that this program can meet, by code.
std::span<const StatusMeaning> status_meanings();

/// The error of a call with a failing `status`: "[runtime/cuda] cannot reserve memory: found status 2
/// CUDA_ERROR_OUT_OF_MEMORY (…), expected success; …". `operation` is "reserve memory". An unknown code is
/// `kUnavailable`.
Error error_of(CUresult status, std::string_view operation);

/// Ok, or `error_of`.
Result<void> check(CUresult status, std::string_view operation);

}  // namespace lockstep::cu
