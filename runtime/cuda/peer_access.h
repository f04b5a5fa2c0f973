// Memory of other ranks: of another GPU in this process, or of another process on this host.
#pragma once

#include <utility>

#include "runtime/cuda/memory.h"

namespace lockstep::cu {

/// Lets kernels of `own` use all memory of the context `other`, of another GPU in this process. May be repeated. Fails
/// with `kUnavailable` where the two GPUs cannot see each other.
Result<void> enable_peer_access(const Context& own, CUcontext other);

/// What another process needs in order to open this memory, which stays allocated until every process has closed it.
Result<CUipcMemHandle> share(const DeviceMemory& memory);

/// Memory that another process on this host has shared; closed with the object.
class SharedMemory {
 public:
  /// @blocking
  static Result<SharedMemory> open(const Context& context, const CUipcMemHandle& handle);
  SharedMemory() = default;
  ~SharedMemory();
  SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept;

  DeviceAddress address() const { return address_; }

 private:
  const Context* context_ = nullptr;
  DeviceAddress address_;
};

}  // namespace lockstep::cu
