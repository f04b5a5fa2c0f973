// Memory at fixed addresses: on the device, and pinned on the host.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include "runtime/cuda/context.h"

namespace lockstep::cu {

/// An address in a GPU's memory; arithmetic in bytes.
struct DeviceAddress {
  CUdeviceptr value = 0;

  explicit operator bool() const { return value != 0; }
  friend DeviceAddress operator+(DeviceAddress address, int64_t bytes) {
    return {address.value + static_cast<CUdeviceptr>(bytes)};
  }
  friend bool operator==(DeviceAddress, DeviceAddress) = default;
};

/// Device memory, freed with the object. Contents are undefined at first.
class DeviceMemory {
 public:
  /// Fails with `kResourceExhausted` naming `purpose` ("the weights"). 0 bytes make an empty object. @blocking
  static Result<DeviceMemory> create(const Context& context, Bytes bytes, std::string_view purpose);
  DeviceMemory() = default;
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  DeviceAddress address() const { return address_; }
  Bytes bytes() const { return bytes_; }
  /// Null for an empty object.
  const Context* context() const { return context_; }

 private:
  const Context* context_ = nullptr;
  DeviceAddress address_;
  Bytes bytes_;
};

/// Page-locked host memory that kernels reach as well, freed with the object. Zero at first.
class PinnedMemory {
 public:
  static Result<PinnedMemory> create(const Context& context, Bytes bytes, std::string_view purpose);
  PinnedMemory() = default;
  ~PinnedMemory();
  PinnedMemory(PinnedMemory&& other) noexcept { *this = std::move(other); }
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;

  std::span<std::byte> host() const { return {host_, static_cast<size_t>(bytes_.value)}; }
  /// The same memory as kernels see it.
  DeviceAddress device() const { return device_; }

 private:
  const Context* context_ = nullptr;
  std::byte* host_ = nullptr;
  DeviceAddress device_;
  Bytes bytes_;
};

}  // namespace lockstep::cu
