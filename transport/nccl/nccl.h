// GPUs of several hosts: bytes between them by NCCL, in the order of a stream.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/device/device_exchange.h"
#include "transport/waiting.h"

namespace lockstep::transport::nccl {

inline constexpr const char* kLibraryName = "libnccl.so.2";

/// What connects ranks by NCCL. Every wait ends with the abort flag and the deadline of `wait`. Connecting fails with
/// `kUnavailable` where the library is missing, too old, or finds no GPU or network; with `kDeadlineExceeded` where a
/// member does not come.
device::ConnectDevices connect_devices(const WaitOptions& wait);

/// "NCCL 2.28.9". Fails with `kUnavailable` where the library is missing or too old.
Result<std::string> describe(const std::filesystem::path& library = kLibraryName);

}  // namespace lockstep::transport::nccl
