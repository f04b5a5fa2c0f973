// The stand-in of the CUDA driver (libcuda_stand_in.so): what tests ask of it beside the driver's own functions. Looked
// up by name in the loaded library.
//
// It is as strict as a driver may be, and stricter where a mistake would be found on a GPU alone: sizes are exact, new
// memory is NaN, copies take pinned memory only, device memory ends before a page that nobody may touch, a capture
// refuses what a capture cannot hold, and a kernel that is wrong ends with an illegal address and a line on stderr.
// Memory is freed once the device has no work, and meanwhile every other call but a query waits (seen on driver 580).
//
// LOCKSTEP_STAND_IN_CUDA sets it up, when the library is loaded: words with commas between them of
//   lazy            work runs when somebody waits for it (default: eager, at once)
//   threaded        a thread of each stream runs its work, while the host goes on
//   down, shuffled  order of threads and blocks
//   devices=N       (default 1)        memory=BYTES of a device (default 1 GiB)
//   version=N       of the driver (default 13000)        capability=N (default 90)
//   NAME:N=STATUS   the N-th call of cuNAME fails with STATUS; from then on too with NAME:N+=STATUS
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "runtime/cuda/abi.h"

namespace lockstep::cu {

/// What a process has now or has done so far.
struct StandInCounts {
  int64_t allocations = 0;     // objects of every kind that are not freed
  int64_t calls = 0;           // of every function
  int64_t allocating = 0;      // calls that allocate or free memory
  int64_t launches = 0;        // kernels that have run
  int64_t early_launches = 0;  // that have begun before the kernel ahead ran
  int64_t graph_launches = 0;
  int64_t pinned_bytes = 0;  // of the host
};

/// What a stand-in of another library asks, whose work runs in this one's streams.
struct StandInStreams {
  bool (*has_context)();  // on this thread
  bool (*has)(CUstream stream);
  CUresult (*enqueue)(CUstream stream, std::function<CUresult()> work);  // or records it in a capture
  bool (*is_device_memory)(CUdeviceptr address, size_t bytes);           // that may be used
};

extern "C" StandInCounts lockstep_stand_in_cuda_counts();
extern "C" const StandInStreams* lockstep_stand_in_cuda_streams();

}  // namespace lockstep::cu
