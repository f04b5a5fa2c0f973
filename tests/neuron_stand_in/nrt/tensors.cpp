#include "tests/neuron_stand_in/nrt/tensors.h"

#include <fmt/format.h>

#include <cstring>
#include <new>

#include "tests/neuron_stand_in/nrt/report.h"

namespace lockstep::stand_in {

nrt::NRT_STATUS CoreMemory::charge(size_t core, size_t bytes, const std::string& what) {
  if (bytes > limit_ - used_[core]) {
    return refuse(nrt::NRT_RESOURCE, fmt::format("{} needs {} bytes, core {} has {} of {} left", what, bytes, core,
                                                 limit_ - used_[core], limit_));
  }
  used_[core] += bytes;
  return nrt::NRT_SUCCESS;
}

nrt::NRT_STATUS CoreMemory::allocate(int vnc, size_t size, const char* name, nrt::nrt_tensor_t** tensor) {
  if (vnc < 0 || static_cast<size_t>(vnc) >= used_.size() || size == 0 || tensor == nullptr) {
    return refuse(nrt::NRT_INVALID, fmt::format("a tensor of {} bytes on core {} of {}", size, vnc, used_.size()));
  }
  const std::string title = name == nullptr ? "" : name;
  const nrt::NRT_STATUS status = charge(static_cast<size_t>(vnc), size, "tensor " + title);
  if (status != nrt::NRT_SUCCESS) return status;
  std::unique_ptr<std::byte[]> bytes(new (std::nothrow) std::byte[size]);
  if (bytes == nullptr) {
    discharge(static_cast<size_t>(vnc), size);
    return refuse(nrt::NRT_RESOURCE, "the host has not as much memory");
  }
  std::memset(bytes.get(), 0xff, size);
  auto made = std::make_unique<nrt::nrt_tensor_t>(nrt::nrt_tensor_t{vnc, size, title, std::move(bytes)});
  *tensor = made.get();
  tensors_.emplace(*tensor, std::move(made));
  return nrt::NRT_SUCCESS;
}

void CoreMemory::free(nrt::nrt_tensor_t* tensor) {
  if (!has(tensor)) {
    refuse(nrt::NRT_INVALID_HANDLE, "freed a tensor that is none");
    return;
  }
  discharge(static_cast<size_t>(tensor->vnc), tensor->size);
  tensors_.erase(tensor);
}

nrt::NRT_STATUS CoreMemory::check_range(const nrt::nrt_tensor_t* tensor, size_t offset, size_t size,
                                        const char* call) const {
  if (!has(tensor)) return refuse(nrt::NRT_INVALID_HANDLE, fmt::format("{}: no such tensor", call));
  if (offset <= tensor->size && size <= tensor->size - offset) return nrt::NRT_SUCCESS;
  return refuse(nrt::NRT_INVALID, fmt::format("{}: bytes {} to {} of tensor {}, which has {}", call, offset,
                                              offset + size, tensor->name, tensor->size));
}

TensorSet* CoreMemory::new_set() {
  auto made = std::make_unique<TensorSet>();
  TensorSet* set = made.get();
  sets_.emplace(set, std::move(made));
  return set;
}

void CoreMemory::free_set(const void* set) {
  if (sets_.erase(set) == 0) refuse(nrt::NRT_INVALID_HANDLE, "destroyed a tensor set that is none");
}

TensorSet* CoreMemory::set_of(const void* handle) const {
  const auto found = sets_.find(handle);
  return found == sets_.end() ? nullptr : found->second.get();
}

}  // namespace lockstep::stand_in
