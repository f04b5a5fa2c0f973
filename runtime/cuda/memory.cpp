#include "runtime/cuda/memory.h"

#include <fmt/format.h>

#include <cstring>

#include "runtime/cuda/status.h"

namespace lockstep::cu {

Result<DeviceMemory> DeviceMemory::create(const Context& context, Bytes bytes, std::string_view purpose) {
  DeviceMemory memory;
  if (bytes.value == 0) return memory;
  const CUresult status = context.functions().MemAlloc(&memory.address_.value, static_cast<size_t>(bytes.value));
  if (status != CUDA_SUCCESS) {
    return error_of(status,
                    fmt::format("reserve {} of GPU {} for {}", to_string(bytes), context.device().ordinal, purpose));
  }
  memory.context_ = &context;
  memory.bytes_ = bytes;
  return memory;
}

DeviceMemory::~DeviceMemory() {
  if (context_ != nullptr) context_->functions().MemFree(address_.value);
}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Result<PinnedMemory> PinnedMemory::create(const Context& context, Bytes bytes, std::string_view purpose) {
  PinnedMemory memory;
  if (bytes.value == 0) return memory;
  const std::string operation = fmt::format("pin {} of the host's memory for {}", to_string(bytes), purpose);
  void* host = nullptr;
  LOCKSTEP_TRY_VOID(check(context.functions().MemHostAlloc(&host, static_cast<size_t>(bytes.value),
                                                           kMemHostAllocPortable | kMemHostAllocDeviceMap),
                          operation));
  memory.context_ = &context;
  memory.host_ = static_cast<std::byte*>(host);
  memory.bytes_ = bytes;
  LOCKSTEP_TRY_VOID(check(context.functions().MemHostGetDevicePointer(&memory.device_.value, host, 0), operation));
  std::memset(host, 0, static_cast<size_t>(bytes.value));
  return memory;
}

PinnedMemory::~PinnedMemory() {
  if (context_ != nullptr) context_->functions().MemFreeHost(host_);
}

PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(host_, other.host_);
  std::swap(device_, other.device_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace lockstep::cu
