// The C interface. The declarations of abi.h, which a test compares with the public headers, are included: a function
// with another signature does not compile.
#include <algorithm>
#include <cstring>

#include "tests/neuron_stand_in/nrt/process.h"
#include "tests/neuron_stand_in/nrt/report.h"

namespace lockstep::nrt {
namespace {

/// The one object behind the interface; it is made at the first call and left to the system at the end.
stand_in::Process& process() {
  static auto* const instance = new stand_in::Process;
  return *instance;
}

/// A call that touches tensors and sets: `body` runs under the lock.
template <typename Body>
NRT_STATUS call(const char* name, Body body) {
  if (const NRT_STATUS status = process().enter(name); status != NRT_SUCCESS) return status;
  const std::lock_guard lock(process().mutex());
  return body(process().memory());
}

NRT_STATUS no_set(const char* name) {
  return stand_in::refuse(NRT_INVALID_HANDLE, std::string(name) + ": no such tensor set");
}

}  // namespace

NRT_STATUS nrt_get_version(nrt_version_t* version, size_t size) {
  const stand_in::Settings* settings = process().settings();
  if (settings == nullptr || version == nullptr || size < sizeof *version) return NRT_INVALID;
  *version = {};
  version->rt_major = settings->version[0];
  version->rt_minor = settings->version[1];
  version->rt_patch = settings->version[2];
  version->rt_maintenance = settings->version[3];
  std::strcpy(version->rt_detail, "lockstep stand-in: no Neuron device");
  return NRT_SUCCESS;
}

NRT_STATUS nrt_init(nrt_framework_type_t framework, const char* fw_version, const char* fal_version) {
  const bool is_known = framework > NRT_FRAMEWORK_TYPE_INVALID && framework <= NRT_FRAMEWORK_TYPE_PRECHECK;
  if (!is_known || fw_version == nullptr || fal_version == nullptr) return NRT_INVALID;
  return process().start();
}

void nrt_close() { process().close(); }

NRT_STATUS nrt_get_total_vnc_count(uint32_t* vnc_count) {
  const stand_in::Settings* settings = process().settings();
  if (settings == nullptr || vnc_count == nullptr) return NRT_INVALID;
  *vnc_count = settings->total_cores;
  return NRT_SUCCESS;
}

NRT_STATUS nrt_get_visible_vnc_count(uint32_t* vnc_count) {
  const stand_in::Settings* settings = process().settings();
  if (settings == nullptr || vnc_count == nullptr) return NRT_INVALID;
  *vnc_count = static_cast<uint32_t>(settings->visible_cores.size());
  return NRT_SUCCESS;
}

NRT_STATUS nrt_get_instance_info(nrt_instance_info_t* info, size_t instance_info_len) {
  const stand_in::Settings* settings = process().settings();
  if (settings == nullptr || info == nullptr || instance_info_len < sizeof *info) return NRT_INVALID;
  *info = {};
  info->family = settings->family;
  std::strcpy(info->arch_name, "stand-in");
  return NRT_SUCCESS;
}

NRT_STATUS nrt_get_vnc_memory_stats(uint32_t vnc, nrt_vnc_memory_stats_t* stats, size_t stats_size_in,
                                    size_t* stats_size_out) {
  return call("get_vnc_memory_stats", [&](stand_in::CoreMemory& memory) {
    if (vnc >= memory.cores() || stats == nullptr || stats_size_in < sizeof *stats || stats_size_out == nullptr) {
      return NRT_INVALID;
    }
    *stats = {memory.used(vnc), memory.limit()};
    *stats_size_out = sizeof *stats;
    return NRT_SUCCESS;
  });
}

NRT_STATUS nrt_load(const void* neff_bytes, size_t size, int32_t vnc, int32_t /*vnc_count*/, nrt_model_t** model) {
  if (const NRT_STATUS status = process().enter("load"); status != NRT_SUCCESS) return status;
  return process().load({.neff = {static_cast<const std::byte*>(neff_bytes), size}, .vnc = vnc}, model);
}

NRT_STATUS nrt_load_collectives(const void* neff_bytes, size_t size, int32_t vnc, int32_t /*vnc_count*/,
                                uint32_t ctx_device_id, uint32_t ctx_device_count, nrt_model_t** model) {
  if (const NRT_STATUS status = process().enter("load"); status != NRT_SUCCESS) return status;
  return process().load({.neff = {static_cast<const std::byte*>(neff_bytes), size},
                         .vnc = vnc,
                         .rank = ctx_device_id,
                         .ranks = ctx_device_count,
                         .with_collectives = true},
                        model);
}

NRT_STATUS nrt_unload(nrt_model_t* model) {
  if (const NRT_STATUS status = process().enter("unload"); status != NRT_SUCCESS) return status;
  return process().unload(model);
}

NRT_STATUS nrt_execute(nrt_model_t* model, const nrt_tensor_set_t* input_set, nrt_tensor_set_t* output_set) {
  if (const NRT_STATUS status = process().enter("execute"); status != NRT_SUCCESS) return status;
  return process().execute(model, input_set, output_set);
}

NRT_STATUS nrt_allocate_tensor_set(nrt_tensor_set_t** result) {
  return call("allocate_tensor_set", [&](stand_in::CoreMemory& memory) {
    if (result == nullptr) return NRT_INVALID;
    *result = memory.new_set();
    return NRT_SUCCESS;
  });
}

void nrt_destroy_tensor_set(nrt_tensor_set_t** tensor_set) {
  call("destroy_tensor_set", [&](stand_in::CoreMemory& memory) {
    if (tensor_set == nullptr) return NRT_INVALID;
    memory.free_set(*tensor_set);
    *tensor_set = nullptr;
    return NRT_SUCCESS;
  });
}

NRT_STATUS nrt_add_tensor_to_tensor_set(nrt_tensor_set_t* tensor_set, const char* tensor_name, nrt_tensor_t* tensor) {
  return call("add_tensor_to_tensor_set", [&](stand_in::CoreMemory& memory) {
    stand_in::TensorSet* set = memory.set_of(tensor_set);
    if (set == nullptr) return no_set("add_tensor_to_tensor_set");
    if (tensor_name == nullptr || !memory.has(tensor)) return NRT_INVALID_HANDLE;
    (*set)[tensor_name] = tensor;
    return NRT_SUCCESS;
  });
}

NRT_STATUS nrt_tensor_allocate(nrt_tensor_placement_t tensor_placement, int vnc, size_t size, const char* name,
                               nrt_tensor_t** tensor) {
  return call("tensor_allocate", [&](stand_in::CoreMemory& memory) {
    if (tensor_placement != NRT_TENSOR_PLACEMENT_DEVICE) return NRT_INVALID;
    return memory.allocate(vnc, size, name, tensor);
  });
}

void nrt_tensor_free(nrt_tensor_t** tensor) {
  call("tensor_free", [&](stand_in::CoreMemory& memory) {
    if (tensor == nullptr) return NRT_INVALID;
    memory.free(*tensor);
    *tensor = nullptr;
    return NRT_SUCCESS;
  });
}

NRT_STATUS nrt_tensor_read(const nrt_tensor_t* tensor, void* buf, size_t offset, size_t size) {
  return call("tensor_read", [&](stand_in::CoreMemory& memory) {
    const NRT_STATUS status = memory.check_range(tensor, offset, size, "tensor_read");
    if (status == NRT_SUCCESS) std::memcpy(buf, tensor->bytes.get() + offset, size);
    return status;
  });
}

NRT_STATUS nrt_tensor_write(nrt_tensor_t* tensor, const void* buf, size_t offset, size_t size) {
  return call("tensor_write", [&](stand_in::CoreMemory& memory) {
    const NRT_STATUS status = memory.check_range(tensor, offset, size, "tensor_write");
    if (status == NRT_SUCCESS) std::memcpy(tensor->bytes.get() + offset, buf, size);
    return status;
  });
}

NRT_STATUS nrt_tensor_memset(nrt_tensor_t* tensor, uint64_t offset, int value, size_t size) {
  return call("tensor_memset", [&](stand_in::CoreMemory& memory) {
    const NRT_STATUS status = memory.check_range(tensor, offset, size, "tensor_memset");
    if (status == NRT_SUCCESS) std::memset(tensor->bytes.get() + offset, value, size);
    return status;
  });
}

void* nrt_tensor_get_va(const nrt_tensor_t* tensor) {
  void* address = nullptr;
  call("tensor_get_va", [&](stand_in::CoreMemory& memory) {
    if (memory.has(tensor)) address = tensor->bytes.get();
    return NRT_SUCCESS;
  });
  return address;
}

NRT_STATUS nrt_get_model_tensor_info(nrt_model_t* model, nrt_tensor_info_array_t** tensor_info) {
  if (const NRT_STATUS status = process().enter("get_model_tensor_info"); status != NRT_SUCCESS) return status;
  if (process().find(model) == nullptr || tensor_info == nullptr) return NRT_INVALID_HANDLE;
  *tensor_info = stand_in::describe_tensors(*model);
  return NRT_SUCCESS;
}

NRT_STATUS nrt_free_model_tensor_info(nrt_tensor_info_array_t* tensor_info) {
  if (tensor_info == nullptr) return NRT_INVALID;
  stand_in::free_description(tensor_info);
  return NRT_SUCCESS;
}

}  // namespace lockstep::nrt
