// What the stand-ins of CUDA's libraries need of the driver's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "runtime/cuda/abi.h"

namespace lockstep::cu {

/// Adds work to a stream as a launch would be: recorded, run at once, or kept until a caller waits. The work runs
/// without the driver's lock.
CUresult enqueue_work(CUstream stream, std::function<CUresult()> work);
/// Counts a call, and returns its planted fault.
CUresult count_call(const char* name);
/// Whether [address, address + bytes) is memory of a device that may be used.
bool is_memory_of_device(CUdeviceptr address, size_t bytes);
bool has_current_context();
/// Counts objects that are made (or freed, if negative), so that tests see what is left.
void count_objects(int64_t more);

}  // namespace lockstep::cu
