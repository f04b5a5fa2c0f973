#include "transport/nccl/nccl_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace lockstep::transport::nccl {
namespace {

constexpr std::string_view kReport = "this is a bug of lockstep, please report it with what NCCL_DEBUG=WARN prints";
constexpr std::string_view kNetwork =
    "see what NCCL_DEBUG=WARN prints, and choose the network between the hosts with NCCL_SOCKET_IFNAME or NCCL_IB_HCA";

#define LOCKSTEP_NCCL_RESULT(name) nccl##name, "nccl" #name
// Codes, names and meanings: ncclResult_t of nccl.h.
constexpr std::array kMeanings = {
    ResultMeaning{LOCKSTEP_NCCL_RESULT(UnhandledCudaError), ErrorKind::kUnavailable, "a call of CUDA failed",
                  "see what NCCL_DEBUG=WARN prints, and nvidia-smi"},
    ResultMeaning{LOCKSTEP_NCCL_RESULT(SystemError), ErrorKind::kUnavailable, "a call of the system failed", kNetwork},
    ResultMeaning{LOCKSTEP_NCCL_RESULT(InternalError), ErrorKind::kInternal, "NCCL contradicts itself", kReport},
    ResultMeaning{LOCKSTEP_NCCL_RESULT(InvalidArgument), ErrorKind::kInternal, "an argument is out of range", kReport},
    ResultMeaning{LOCKSTEP_NCCL_RESULT(InvalidUsage), ErrorKind::kFailedPrecondition,
                  "the ranks do not fit NCCL: two of them on one GPU, or unlike versions of NCCL",
                  "give each rank a GPU, and install one version of NCCL on every host"},
    ResultMeaning{LOCKSTEP_NCCL_RESULT(RemoteError), ErrorKind::kPeerLost,
                  "a rank of another host ended, or the network to it failed",
                  "look at the other hosts' ranks and at the network"},
    ResultMeaning{LOCKSTEP_NCCL_RESULT(InProgress), ErrorKind::kInternal, "an earlier call has not ended", kReport},
};
#undef LOCKSTEP_NCCL_RESULT

}  // namespace

std::span<const ResultMeaning> result_meanings() { return kMeanings; }

Error error_of(ncclResult_t result, std::string_view operation, std::string_view last) {
  constexpr ResultMeaning kUnknown{ncclSuccess, "", ErrorKind::kUnavailable, "a code of a newer NCCL",
                                   "look it up in nccl.h (ncclResult_t)"};
  const auto* known = std::find_if(kMeanings.begin(), kMeanings.end(),
                                   [&](const ResultMeaning& meaning) { return meaning.result == result; });
  const ResultMeaning& meaning = known == kMeanings.end() ? kUnknown : *known;
  const std::string told = last.empty() ? std::string() : fmt::format(": {}", last);
  return {meaning.kind,
          fmt::format("[transport/nccl] cannot {}: found result {} {} ({}{}), expected success; {}", operation,
                      static_cast<int>(result), meaning.name, meaning.meaning, told, meaning.advice)};
}

}  // namespace lockstep::transport::nccl
