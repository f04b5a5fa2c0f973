#include "runtime/cuda/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace lockstep::cu {
namespace {

constexpr std::string_view kReport = "this is a bug of lockstep, please report it";
constexpr std::string_view kHardware =
    "look at dmesg (Xid) and nvidia-smi -q, then start again; if it comes back, reset or replace the GPU";
constexpr std::string_view kMemory =
    "use more ranks, lower --batch-size, --max-seq-len or --prefill-chunk, and see with nvidia-smi whether another "
    "process holds memory of this GPU";
constexpr std::string_view kDriver = "install an NVIDIA driver of version 580 or newer (CUDA 13.0)";
constexpr std::string_view kKernel = "this is a bug of lockstep, please report it with what compute-sanitizer says";
constexpr ErrorKind kInternal = ErrorKind::kInternal;

#define LOCKSTEP_CUDA_STATUS(name) CUDA_ERROR_##name, "CUDA_ERROR_" #name
// Codes, names and meanings: enum cudaError_enum of cuda.h.
constexpr std::array kMeanings = {
    StatusMeaning{LOCKSTEP_CUDA_STATUS(INVALID_VALUE), kInternal, "an argument is out of range", kReport},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(OUT_OF_MEMORY), ErrorKind::kResourceExhausted, "the memory is used up", kMemory},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(NOT_INITIALIZED), kInternal, "the driver was not started", kReport},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(DEINITIALIZED), kInternal, "the driver is shutting down", kReport},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(STUB_LIBRARY), ErrorKind::kUnavailable,
                  "this libcuda is the stub of a CUDA toolkit", kDriver},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(DEVICE_UNAVAILABLE), ErrorKind::kFailedPrecondition,
                  "the GPU is taken: it accepts one process (exclusive mode), or another owner",
                  "end that process, or see nvidia-smi -c"},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(NO_DEVICE), ErrorKind::kUnavailable, "no GPU is visible",
                  "see nvidia-smi and CUDA_VISIBLE_DEVICES, and give the container or job its GPUs"},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(INVALID_DEVICE), ErrorKind::kFailedPrecondition, "there is no such GPU",
                  "see nvidia-smi -L and CUDA_VISIBLE_DEVICES"},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(INVALID_IMAGE), kInternal, "the kernels' image is damaged", kReport},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(INVALID_CONTEXT), kInternal, "the thread has no context", kReport},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(NO_BINARY_FOR_GPU), ErrorKind::kUnavailable,
                  "the image has no kernels for this kind of GPU", "use a GPU that docs/gpu.md lists"},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(ECC_UNCORRECTABLE), ErrorKind::kUnavailable, "the GPU's memory lost data",
                  kHardware},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(PEER_ACCESS_UNSUPPORTED), ErrorKind::kUnavailable,
                  "these GPUs cannot read each other's memory", "see nvidia-smi topo -p2p r"},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(NVLINK_UNCORRECTABLE), ErrorKind::kUnavailable, "an NVLink failed", kHardware},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(CONTAINED), ErrorKind::kUnavailable, "the GPU contained a hardware error",
                  kHardware},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(OPERATING_SYSTEM), ErrorKind::kUnavailable, "a call of the system failed",
                  "see dmesg and the limits of the container or job"},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(INVALID_HANDLE), kInternal, "a handle is not valid", kReport},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(ILLEGAL_STATE), kInternal, "a resource is not in the needed state", kReport},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(NOT_FOUND), kInternal, "there is nothing of this name", kReport},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(NOT_READY), kInternal, "earlier work has not ended", kReport},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(ILLEGAL_ADDRESS), kInternal, "a kernel used an address that is not its own",
                  kKernel},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(LAUNCH_OUT_OF_RESOURCES), kInternal, "a kernel needs more than an SM has",
                  kReport},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(LAUNCH_TIMEOUT), ErrorKind::kDeadlineExceeded,
                  "a kernel ran longer than the system allows on a GPU with a display",
                  "use a GPU without a display, or lower --prefill-chunk"},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(PEER_ACCESS_ALREADY_ENABLED), kInternal, "peer access was enabled before",
                  kReport},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(PEER_ACCESS_NOT_ENABLED), kInternal, "peer access was not enabled", kReport},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(CONTEXT_IS_DESTROYED), kInternal, "the context is gone", kReport},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(ASSERT), kInternal, "an assertion failed in a kernel", kKernel},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(HARDWARE_STACK_ERROR), kInternal, "a kernel's stack is damaged", kKernel},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(ILLEGAL_INSTRUCTION), kInternal, "a kernel has an illegal instruction", kKernel},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(MISALIGNED_ADDRESS), kInternal, "a kernel used a misaligned address", kKernel},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(INVALID_PC), kInternal, "a kernel jumped out of its code", kKernel},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(LAUNCH_FAILED), kInternal, "a kernel failed", kKernel},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(COOPERATIVE_LAUNCH_TOO_LARGE), ErrorKind::kResourceExhausted,
                  "blocks that wait for each other do not fit the GPU together",
                  "give each rank a GPU of its own, or more of a shared one"},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(NOT_PERMITTED), ErrorKind::kFailedPrecondition,
                  "the operation is not permitted here", "see the rights of the container or user"},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(NOT_SUPPORTED), ErrorKind::kUnavailable,
                  "the GPU, the driver or the system does not support it", kDriver},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(SYSTEM_NOT_READY), ErrorKind::kFailedPrecondition,
                  "a service that the GPU needs does not run", "start nvidia-fabricmanager, then see nvidia-smi"},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(SYSTEM_DRIVER_MISMATCH), ErrorKind::kUnavailable,
                  "the kernel module and libcuda are of different drivers", "reboot, or install one driver"},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(COMPAT_NOT_SUPPORTED_ON_DEVICE), ErrorKind::kUnavailable,
                  "this GPU does not take a libcuda that is newer than its kernel module", kDriver},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(STREAM_CAPTURE_UNSUPPORTED), kInternal, "a capture cannot hold this call",
                  kReport},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(STREAM_CAPTURE_INVALIDATED), kInternal, "an earlier call ended the capture",
                  kReport},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(STREAM_CAPTURE_UNMATCHED), kInternal, "the stream did not begin a capture",
                  kReport},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(STREAM_CAPTURE_UNJOINED), kInternal, "a branch of the capture was not joined",
                  kReport},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(STREAM_CAPTURE_IMPLICIT), kInternal,
                  "the call would wait for a stream that is captured", kReport},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(STREAM_CAPTURE_WRONG_THREAD), kInternal, "another thread began the capture",
                  kReport},
    StatusMeaning{LOCKSTEP_CUDA_STATUS(UNKNOWN), ErrorKind::kUnavailable, "the driver gives no reason", kHardware},
};
#undef LOCKSTEP_CUDA_STATUS

}  // namespace

std::span<const StatusMeaning> status_meanings() { return kMeanings; }

Error error_of(CUresult status, std::string_view operation) {
  constexpr StatusMeaning kUnknown{CUDA_SUCCESS, "", ErrorKind::kUnavailable, "a code of a newer driver",
                                   "look it up in cuda.h (enum CUresult)"};
  const auto* known = std::find_if(kMeanings.begin(), kMeanings.end(),
                                   [&](const StatusMeaning& meaning) { return meaning.status == status; });
  const StatusMeaning& meaning = known == kMeanings.end() ? kUnknown : *known;
  return {meaning.kind,
          fmt::format("[runtime/cuda] cannot {}: found status {} {} ({}), expected success; {}", operation,
                      static_cast<int>(status), meaning.name, meaning.meaning, meaning.advice)};
}

Result<void> check(CUresult status, std::string_view operation) {
  if (status == CUDA_SUCCESS) return ok();
  return error_of(status, operation);
}

}  // namespace lockstep::cu
