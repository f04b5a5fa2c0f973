// Declarations of NCCL's C interface (libnccl.so.2), restricted to the part in use. They keep the original names, and
// tests/transport/nccl compares them with nccl.h where that is installed.
//
// Source: nccl.h of NCCL 2.28. A stand-in of the library defines the functions declared here; a program calls them
// through library.h.
#pragma once

#include <cstddef>
#include <limits>

#include "runtime/cuda/abi.h"
#include "transport/nccl/functions.h"

namespace lockstep::transport::nccl {

using cu::CUstream_st;  // nccl.h: cudaStream_t, which is a CUstream

extern "C" {

struct ncclComm;  // opaque: defined by the library
using ncclComm_t = ncclComm*;

enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};

enum ncclDataType_t : int { ncclUint8 = 1 };

struct ncclUniqueId {
  char internal[128];
};

/// The first fields of the library's struct, which are all that `size` and `version` announce.
struct ncclConfig_t {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
};

constexpr unsigned int kConfigMagic = 0xcafebeef;
constexpr unsigned int kConfigVersion = 21400;  // NCCL 2.14.0, whose struct ends with `blocking`

ncclResult_t ncclGetVersion(int* version);  // 22809: 2.28.9
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config);
ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error);
ncclResult_t ncclCommAbort(ncclComm_t communicator);
const char* ncclGetLastError(ncclComm_t communicator);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
// Counts are elements; calls run in the order of their stream.
ncclResult_t ncclAllGather(const void* src, void* dst, size_t count_of_each, ncclDataType_t type,
                           ncclComm_t communicator, CUstream_st* stream);
ncclResult_t ncclSend(const void* src, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      CUstream_st* stream);
ncclResult_t ncclRecv(void* dst, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      CUstream_st* stream);

}  // extern "C"

/// Pointers to the functions of a loaded library: `functions.AllGather(…)` calls its ncclAllGather.
struct Functions {
#define LOCKSTEP_NCCL_POINTER(name) decltype(&nccl##name) name = nullptr;
  LOCKSTEP_NCCL_FUNCTIONS(LOCKSTEP_NCCL_POINTER)
#undef LOCKSTEP_NCCL_POINTER
};

}  // namespace lockstep::transport::nccl
