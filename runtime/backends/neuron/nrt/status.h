// The Neuron runtime's status codes, with meaning and advice.
#pragma once

#include <span>
#include <string_view>

#include "runtime/backends/neuron/nrt/abi.h"
#include "runtime/core/result.h"

namespace lockstep::nrt {

/// One code.
struct StatusMeaning {
  NRT_STATUS status = NRT_SUCCESS;
  std::string_view name;  // "NRT_RESOURCE"
  ErrorKind kind = ErrorKind::kInternal;
  std::string_view meaning;  // "a resource of the device could not be allocated"
  std::string_view advice;   // advice to the user
};

/// All failures in the public header, by code.
std::span<const StatusMeaning> status_meanings();

/// The error of a call with a failing `status`: "[runtime/backends/neuron] cannot load decode: found status 10
/// NRT_UNSUPPORTED_NEFF_VERSION (…), expected success; …". `operation` is "load decode". An unknown code is
/// `kUnavailable`.
Error error_of(NRT_STATUS status, std::string_view operation);

/// Ok, or `error_of`.
Result<void> check(NRT_STATUS status, std::string_view operation);

}  // namespace lockstep::nrt
