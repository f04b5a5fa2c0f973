// Declarations of the Neuron runtime's C interface (libnrt.so.1), restricted to the part in use. They keep the original
// names, and tests/runtime/backends/neuron/nrt compares them with the public headers.
//
// Source: aws-neuron/aws-neuron-sdk on GitHub, src/libnrt/include/nrt/{nrt,nrt_status,nrt_version,nrt_experimental}.h,
// SDK 2.32. An implementation of the library defines the functions declared here; a program calls them through
// nrt/library.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::nrt {

extern "C" {

enum NRT_STATUS {
  NRT_SUCCESS = 0,
  NRT_FAILURE = 1,
  NRT_INVALID = 2,
  NRT_INVALID_HANDLE = 3,
  NRT_RESOURCE = 4,
  NRT_TIMEOUT = 5,
  NRT_HW_ERROR = 6,
  NRT_QUEUE_FULL = 7,
  NRT_LOAD_NOT_ENOUGH_NC = 9,
  NRT_UNSUPPORTED_NEFF_VERSION = 10,
  NRT_FAIL_HOST_MEM_ALLOC = 11,
  NRT_UNINITIALIZED = 13,
  NRT_CLOSED = 14,
  NRT_QUEUE_EMPTY = 15,
  NRT_EXEC_UNIT_UNRECOVERABLE = 101,
  NRT_EXEC_BAD_INPUT = 1002,
  NRT_EXEC_COMPLETED_WITH_NUM_ERR = 1003,
  NRT_EXEC_COMPLETED_WITH_ERR = 1004,
  NRT_EXEC_NC_BUSY = 1005,
  NRT_EXEC_OOB = 1006,
  NRT_COLL_PENDING = 1100,
  NRT_EXEC_HW_ERR_COLLECTIVES = 1200,
  NRT_EXEC_HW_ERR_HBM_UE = 1201,
  NRT_EXEC_HW_ERR_NC_UE = 1202,
  NRT_EXEC_HW_ERR_DMA_ABORT = 1203,
  NRT_EXEC_SW_NQ_OVERFLOW = 1204,
  NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE = 1205,
  NRT_NETWORK_PROXY_FAILURE = 1206,
};

enum nrt_framework_type_t {
  NRT_FRAMEWORK_TYPE_INVALID = 0,
  NRT_FRAMEWORK_TYPE_NO_FW = 1,  // not in the header: a program without a framework
  NRT_FRAMEWORK_TYPE_TENSORFLOW = 2,
  NRT_FRAMEWORK_TYPE_PYTORCH = 3,
  NRT_FRAMEWORK_TYPE_MXNET = 4,
  NRT_FRAMEWORK_TYPE_PRECHECK = 5,
};

enum nrt_tensor_placement_t {
  NRT_TENSOR_PLACEMENT_DEVICE = 0,
  NRT_TENSOR_PLACEMENT_HOST = 1,
  NRT_TENSOR_PLACEMENT_VIRTUAL = 2,
};

enum nrt_dtype {
  NRT_DTYPE_UNKNOWN = 0,
  NRT_DTYPE_UINT64 = 1,
  NRT_DTYPE_INT8 = 2,
  NRT_DTYPE_UINT8 = 3,
  NRT_DTYPE_INT16 = 4,
  NRT_DTYPE_UINT16 = 5,
  NRT_DTYPE_BFLOAT16 = 6,
  NRT_DTYPE_FLOAT16 = 7,
  NRT_DTYPE_INT32 = 8,
  NRT_DTYPE_UINT32 = 9,
  NRT_DTYPE_FLOAT32 = 10,
  NRT_DTYPE_FP32R = 11,
  NRT_DTYPE_INT64 = 12,
  NRT_DTYPE_FP8_E3 = 13,
  NRT_DTYPE_FP8_E4 = 14,
  NRT_DTYPE_FP8_E5 = 15,
};
using nrt_dtype_t = nrt_dtype;

// The values of `family` from nrt_get_instance_info; the enumeration has no name in the header.
enum nrt_instance_family {
  NRT_INSTANCE_UNKNOWN = 0,
  NRT_INSTANCE_INF1 = 1,
  NRT_INSTANCE_TRN1 = 2,
  NRT_INSTANCE_TRN1N = 3,
  NRT_INSTANCE_INF2 = 4,
  NRT_INSTANCE_TRN2 = 5,
  NRT_INSTANCE_TRN2N = 6,
  NRT_INSTANCE_INF2E = 7,
  NRT_INSTANCE_TRN2P = 8,
  NRT_INSTANCE_TRN2U = 9,
  NRT_INSTANCE_TRN2E = 10,
  NRT_INSTANCE_TRN2EU = 11,
  NRT_INSTANCE_TRN2AC = 12,
  NRT_INSTANCE_TRN2UAC = 13,
};

enum nrt_tensor_usage {
  NRT_TENSOR_USAGE_INPUT = 0,
  NRT_TENSOR_USAGE_OUTPUT = 1,
};
using nrt_tensor_usage_t = nrt_tensor_usage;

struct nrt_model;  // opaque: defined by the library
struct nrt_tensor;
using nrt_model_t = nrt_model;
using nrt_tensor_t = nrt_tensor;
using nrt_tensor_set_t = void;

struct nrt_version_t {
  uint64_t rt_major;
  uint64_t rt_minor;
  uint64_t rt_patch;
  uint64_t rt_maintenance;
  char rt_detail[128];
  char git_hash[64];
};

struct nrt_instance_info_t {
  uint32_t family;
  uint32_t size;
  char arch_name[16];
  char device_revision[8];
};

struct nrt_vnc_memory_stats_t {
  size_t bytes_used;
  size_t bytes_limit;
};

struct nrt_tensor_info_t {
  char name[256];
  nrt_tensor_usage_t usage;
  size_t size;  // bytes
  nrt_dtype_t dtype;
  uint32_t* shape;
  uint32_t ndim;
};

/// `tensor_count` elements of nrt_tensor_info_t follow the count in memory (a C flexible array member).
struct nrt_tensor_info_array_t {
  uint64_t tensor_count;

  nrt_tensor_info_t* tensors() { return reinterpret_cast<nrt_tensor_info_t*>(this + 1); }
};

// "vnc" is an index among the visible cores of the process. "ctx_device_id" is the rank and "ctx_device_count" the
// world of the loaded module. Offsets and sizes are bytes.
NRT_STATUS nrt_get_version(nrt_version_t* version, size_t size);
NRT_STATUS nrt_init(nrt_framework_type_t framework, const char* fw_version, const char* fal_version);
void nrt_close();
NRT_STATUS nrt_get_total_vnc_count(uint32_t* vnc_count);    // also valid before nrt_init
NRT_STATUS nrt_get_visible_vnc_count(uint32_t* vnc_count);  // also valid before nrt_init
NRT_STATUS nrt_get_instance_info(nrt_instance_info_t* info, size_t instance_info_len);
NRT_STATUS nrt_get_vnc_memory_stats(uint32_t vnc, nrt_vnc_memory_stats_t* stats, size_t stats_size_in,
                                    size_t* stats_size_out);
NRT_STATUS nrt_load(const void* neff_bytes, size_t size, int32_t vnc, int32_t vnc_count, nrt_model_t** model);
NRT_STATUS nrt_load_collectives(const void* neff_bytes, size_t size, int32_t vnc, int32_t vnc_count,
                                uint32_t ctx_device_id, uint32_t ctx_device_count, nrt_model_t** model);
NRT_STATUS nrt_unload(nrt_model_t* model);
NRT_STATUS nrt_execute(nrt_model_t* model, const nrt_tensor_set_t* input_set, nrt_tensor_set_t* output_set);
NRT_STATUS nrt_allocate_tensor_set(nrt_tensor_set_t** result);
void nrt_destroy_tensor_set(nrt_tensor_set_t** tensor_set);
NRT_STATUS nrt_add_tensor_to_tensor_set(nrt_tensor_set_t* tensor_set, const char* tensor_name, nrt_tensor_t* tensor);
NRT_STATUS nrt_tensor_allocate(nrt_tensor_placement_t tensor_placement, int vnc, size_t size, const char* name,
                               nrt_tensor_t** tensor);
void nrt_tensor_free(nrt_tensor_t** tensor);
NRT_STATUS nrt_tensor_read(const nrt_tensor_t* tensor, void* buf, size_t offset, size_t size);
NRT_STATUS nrt_tensor_write(nrt_tensor_t* tensor, const void* buf, size_t offset, size_t size);
NRT_STATUS nrt_tensor_memset(nrt_tensor_t* tensor, uint64_t offset, int value, size_t size);
void* nrt_tensor_get_va(const nrt_tensor_t* tensor);
// nrt_experimental.h
NRT_STATUS nrt_get_model_tensor_info(nrt_model_t* model, nrt_tensor_info_array_t** tensor_info);
NRT_STATUS nrt_free_model_tensor_info(nrt_tensor_info_array_t* tensor_info);

}  // extern "C"

// The required and the optional functions of a library: FUNCTION(name without nrt_).
#define LOCKSTEP_NRT_REQUIRED_FUNCTIONS(FUNCTION) \
  FUNCTION(get_version)                           \
  FUNCTION(init)                                  \
  FUNCTION(close)                                 \
  FUNCTION(get_visible_vnc_count)                 \
  FUNCTION(load)                                  \
  FUNCTION(load_collectives)                      \
  FUNCTION(unload)                                \
  FUNCTION(execute)                               \
  FUNCTION(allocate_tensor_set)                   \
  FUNCTION(destroy_tensor_set)                    \
  FUNCTION(add_tensor_to_tensor_set)              \
  FUNCTION(tensor_allocate)                       \
  FUNCTION(tensor_free)                           \
  FUNCTION(tensor_read)                           \
  FUNCTION(tensor_write)                          \
  FUNCTION(tensor_memset)                         \
  FUNCTION(tensor_get_va)
#define LOCKSTEP_NRT_OPTIONAL_FUNCTIONS(FUNCTION) \
  FUNCTION(get_total_vnc_count)                   \
  FUNCTION(get_instance_info)                     \
  FUNCTION(get_vnc_memory_stats)                  \
  FUNCTION(get_model_tensor_info)                 \
  FUNCTION(free_model_tensor_info)

/// Pointers to the functions of a library: `functions.init(…)` calls its nrt_init.
struct Functions {
#define LOCKSTEP_NRT_POINTER(name) decltype(&nrt_##name) name = nullptr;
  LOCKSTEP_NRT_REQUIRED_FUNCTIONS(LOCKSTEP_NRT_POINTER)
  LOCKSTEP_NRT_OPTIONAL_FUNCTIONS(LOCKSTEP_NRT_POINTER)
#undef LOCKSTEP_NRT_POINTER
};

}  // namespace lockstep::nrt
