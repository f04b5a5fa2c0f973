#include "runtime/backends/neuron/nrt/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace lockstep::nrt {
namespace {

constexpr std::string_view kReport =
    "this is a bug of lockstep, please report it with the output of NEURON_RT_LOG_LEVEL=INFO";
constexpr std::string_view kHardware =
    "look at dmesg and neuron-top, restart the job, and if it comes back stop and start the instance, which moves it "
    "to other hardware";
constexpr std::string_view kMemory =
    "use more ranks, lower --batch-size, --max-seq-len or --prefill-chunk, name fewer --buckets, and see with "
    "neuron-top whether another process holds memory of these cores";

// Codes and names: nrt_status.h of aws-neuron/aws-neuron-sdk. Common causes: its troubleshooting guide
// (neuron-runtime/nrt-troubleshoot.rst) and issues 820 (code 10) and 779 (differing modules).
constexpr std::array<StatusMeaning, 27> kMeanings{{
    {NRT_FAILURE, "NRT_FAILURE", ErrorKind::kUnavailable, "the runtime gives no reason",
     "the lines of the runtime above this one say more; NEURON_RT_LOG_LEVEL=INFO makes it say all"},
    {NRT_INVALID, "NRT_INVALID", ErrorKind::kFailedPrecondition,
     "the NEFF is not valid, or a tensor's name or size does not fit it",
     "check that --neuron-target is this instance's, and compile again: take the module out of the compile cache"},
    {NRT_INVALID_HANDLE, "NRT_INVALID_HANDLE", ErrorKind::kInternal, "a handle is not valid", kReport},
    {NRT_RESOURCE, "NRT_RESOURCE", ErrorKind::kResourceExhausted, "memory or another resource of the device is used up",
     kMemory},
    {NRT_TIMEOUT, "NRT_TIMEOUT", ErrorKind::kDeadlineExceeded, "the device did not finish in time",
     "see whether all ranks still run, and raise --deadline-s if a step may take that long"},
    {NRT_HW_ERROR, "NRT_HW_ERROR", ErrorKind::kUnavailable, "the hardware failed", kHardware},
    {NRT_QUEUE_FULL, "NRT_QUEUE_FULL", ErrorKind::kInternal, "the execution queue is full", kReport},
    {NRT_LOAD_NOT_ENOUGH_NC, "NRT_LOAD_NOT_ENOUGH_NC", ErrorKind::kFailedPrecondition,
     "the cores are taken by another process, or the module needs more than this process sees",
     "see with neuron-ls who uses which cores, name free ones with --neuron-cores, one for each rank; on trn2 compile "
     "for the logical core size that is set (--lnc)"},
    {NRT_UNSUPPORTED_NEFF_VERSION, "NRT_UNSUPPORTED_NEFF_VERSION", ErrorKind::kFailedPrecondition,
     "the NEFF was compiled by a newer compiler than this runtime knows",
     "install neuronx-cc and aws-neuronx-runtime-lib of one SDK release, then compile again"},
    {NRT_FAIL_HOST_MEM_ALLOC, "NRT_FAIL_HOST_MEM_ALLOC", ErrorKind::kResourceExhausted, "the host's memory is used up",
     "start fewer ranks on this host, or take an instance with more memory"},
    {NRT_UNINITIALIZED, "NRT_UNINITIALIZED", ErrorKind::kInternal, "the runtime was not started", kReport},
    {NRT_CLOSED, "NRT_CLOSED", ErrorKind::kInternal, "the runtime was closed before", kReport},
    {NRT_QUEUE_EMPTY, "NRT_QUEUE_EMPTY", ErrorKind::kInternal, "a queue is empty", kReport},
    {NRT_EXEC_UNIT_UNRECOVERABLE, "NRT_EXEC_UNIT_UNRECOVERABLE", ErrorKind::kUnavailable,
     "the core cannot go on in this process", kHardware},
    {NRT_EXEC_BAD_INPUT, "NRT_EXEC_BAD_INPUT", ErrorKind::kInternal, "the step was given inputs that do not fit",
     kReport},
    {NRT_EXEC_COMPLETED_WITH_NUM_ERR, "NRT_EXEC_COMPLETED_WITH_NUM_ERR", ErrorKind::kInvalidArgument,
     "the step made numbers that are not finite (NaN)",
     "check the checkpoint for such numbers, and use --dtype bfloat16 or float32 where float16 is too small"},
    {NRT_EXEC_COMPLETED_WITH_ERR, "NRT_EXEC_COMPLETED_WITH_ERR", ErrorKind::kUnavailable,
     "the step ended with an error of the device", kHardware},
    {NRT_EXEC_NC_BUSY, "NRT_EXEC_NC_BUSY", ErrorKind::kFailedPrecondition, "another process or model uses the core",
     "see with neuron-ls who does, and name free cores with --neuron-cores"},
    {NRT_EXEC_OOB, "NRT_EXEC_OOB", ErrorKind::kInternal, "an index of a gather or scatter is out of bounds", kReport},
    {NRT_COLL_PENDING, "NRT_COLL_PENDING", ErrorKind::kInternal, "a collective has not ended", kReport},
    {NRT_EXEC_HW_ERR_COLLECTIVES, "NRT_EXEC_HW_ERR_COLLECTIVES", ErrorKind::kPeerLost,
     "a collective is stuck: another rank ended or its hardware failed",
     "look at the first error among the ranks, and start again"},
    {NRT_EXEC_HW_ERR_HBM_UE, "NRT_EXEC_HW_ERR_HBM_UE", ErrorKind::kUnavailable,
     "the device's memory lost data that cannot be repaired", kHardware},
    {NRT_EXEC_HW_ERR_NC_UE, "NRT_EXEC_HW_ERR_NC_UE", ErrorKind::kUnavailable,
     "a memory inside the core had a parity error", kHardware},
    {NRT_EXEC_HW_ERR_DMA_ABORT, "NRT_EXEC_HW_ERR_DMA_ABORT", ErrorKind::kUnavailable, "a DMA engine failed", kHardware},
    {NRT_EXEC_SW_NQ_OVERFLOW, "NRT_EXEC_SW_NQ_OVERFLOW", ErrorKind::kUnavailable,
     "the runtime's notification queue overflowed", "start again; compile with another -O level if it comes back"},
    {NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE, "NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE", ErrorKind::kUnavailable,
     "the device's memory lost data; it can repair itself", "reboot the instance, which repairs it, and start again"},
    {NRT_NETWORK_PROXY_FAILURE, "NRT_NETWORK_PROXY_FAILURE", ErrorKind::kUnavailable,
     "the network between instances failed",
     "check the EFA driver and that the instances' security group lets them reach each other"},
}};

}  // namespace

std::span<const StatusMeaning> status_meanings() { return kMeanings; }

Error error_of(NRT_STATUS status, std::string_view operation) {
  const auto found = std::ranges::find(kMeanings, status, &StatusMeaning::status);
  const StatusMeaning meaning =
      found != kMeanings.end()
          ? *found
          : StatusMeaning{status, "of no known name", ErrorKind::kUnavailable, "this runtime is newer than lockstep",
                          "the lines of the runtime above this one say more"};
  return {meaning.kind,
          fmt::format("[runtime/backends/neuron] cannot {}: found status {} {} ({}), expected success; {}", operation,
                      static_cast<int>(status), meaning.name, meaning.meaning, meaning.advice)};
}

Result<void> check(NRT_STATUS status, std::string_view operation) {
  if (status == NRT_SUCCESS) return ok();
  return error_of(status, operation);
}

}  // namespace lockstep::nrt
