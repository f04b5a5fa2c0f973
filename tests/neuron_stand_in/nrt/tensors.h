// Memory of the stand-in's cores: tensors, sets of tensors by name, and a budget per core. Invalid or freed handles are
// detected.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/backends/neuron/nrt/abi.h"

/// The object behind the C interface's opaque handle. Fresh memory holds bytes that are NaNs in every float type: a
/// device does not clear it either.
struct lockstep::nrt::nrt_tensor {
  int vnc = 0;
  size_t size = 0;
  std::string name;
  std::unique_ptr<std::byte[]> bytes;
};

namespace lockstep::stand_in {

using TensorSet = std::map<std::string, nrt::nrt_tensor_t*>;

/// The memory of this process's cores.
class CoreMemory {
 public:
  /// `cores` visible ones with `limit` bytes each.
  CoreMemory(size_t cores, size_t limit) : used_(cores, 0), limit_(limit) {}

  size_t cores() const { return used_.size(); }
  size_t limit() const { return limit_; }
  size_t used(size_t core) const { return used_[core]; }

  /// NRT_RESOURCE when the core has not as much left.
  nrt::NRT_STATUS charge(size_t core, size_t bytes, const std::string& what);
  void discharge(size_t core, size_t bytes) { used_[core] -= bytes; }

  nrt::NRT_STATUS allocate(int vnc, size_t size, const char* name, nrt::nrt_tensor_t** tensor);
  void free(nrt::nrt_tensor_t* tensor);
  bool has(const nrt::nrt_tensor_t* tensor) const { return tensors_.contains(tensor); }

  /// NRT_INVALID_HANDLE for a tensor that is none, NRT_INVALID for a range outside it.
  nrt::NRT_STATUS check_range(const nrt::nrt_tensor_t* tensor, size_t offset, size_t size, const char* call) const;

  TensorSet* new_set();
  void free_set(const void* set);
  /// The set behind a handle; null for one that is none.
  TensorSet* set_of(const void* handle) const;

 private:
  std::vector<size_t> used_;  // bytes by visible core
  const size_t limit_;
  std::map<const nrt::nrt_tensor_t*, std::unique_ptr<nrt::nrt_tensor_t>> tensors_;
  std::map<const void*, std::unique_ptr<TensorSet>> sets_;
};

}  // namespace lockstep::stand_in
