#include "runtime/cuda/peer_access.h"

#include <fmt/format.h>

#include "runtime/cuda/status.h"

namespace lockstep::cu {

Result<void> enable_peer_access(const Context& own, CUcontext other) {
  const CUresult status = own.functions().CtxEnablePeerAccess(other, 0);
  if (status == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) return ok();
  return check(status, fmt::format("let GPU {} read the memory of another GPU", own.device().ordinal));
}

Result<CUipcMemHandle> share(const DeviceMemory& memory) {
  CUipcMemHandle handle{};
  LOCKSTEP_TRY_VOID(check(memory.context()->functions().IpcGetMemHandle(&handle, memory.address().value),
                          "share memory of the device with other processes"));
  return handle;
}

Result<SharedMemory> SharedMemory::open(const Context& context, const CUipcMemHandle& handle) {
  SharedMemory memory;
  LOCKSTEP_TRY_VOID(check(context.functions().IpcOpenMemHandle(&memory.address_.value, handle, kIpcPeerAccess),
                          "open memory of another process's GPU"));
  memory.context_ = &context;
  return memory;
}

SharedMemory::~SharedMemory() {
  if (context_ != nullptr) context_->functions().IpcCloseMemHandle(address_.value);
}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(address_, other.address_);
  return *this;
}

}  // namespace lockstep::cu
