#include "runtime/cuda/blas_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace lockstep::cu {
namespace {

struct Meaning {
  BlasStatus status;
  std::string_view name;
  ErrorKind kind;
  std::string_view meaning;
  std::string_view advice;
};

constexpr std::string_view kReport = "report it, and omit --numerics fast";
constexpr std::array kMeanings = {
    Meaning{kBlasNotInitialized, "NOT_INITIALIZED", ErrorKind::kUnavailable, "the library did not find its GPU",
            "install cuBLAS of the driver's CUDA, or omit --numerics fast"},
    Meaning{kBlasAllocFailed, "ALLOC_FAILED", ErrorKind::kResourceExhausted, "no memory is left for the library",
            "lower --capacity or --slots, or omit --numerics fast"},
    Meaning{kBlasInvalidValue, "INVALID_VALUE", ErrorKind::kInternal, "a parameter is wrong", kReport},
    Meaning{kBlasArchMismatch, "ARCH_MISMATCH", ErrorKind::kUnavailable, "the library has no kernel for this GPU",
            "install a newer cuBLAS, or omit --numerics fast"},
    Meaning{kBlasMappingError, "MAPPING_ERROR", ErrorKind::kInternal, "memory could not be used", kReport},
    Meaning{kBlasExecutionFailed, "EXECUTION_FAILED", ErrorKind::kInternal, "the product did not run", kReport},
    Meaning{kBlasInternalError, "INTERNAL_ERROR", ErrorKind::kInternal, "the library failed", kReport},
    Meaning{kBlasNotSupported, "NOT_SUPPORTED", ErrorKind::kUnsupported, "no algorithm multiplies these shapes",
            "omit --numerics fast"},
};

}  // namespace

Result<void> check(BlasStatus status, std::string_view operation) {
  if (status == kBlasSuccess) return ok();
  constexpr Meaning kUnknown{kBlasSuccess, "", ErrorKind::kUnavailable, "a code of a newer library",
                             "look it up in cublas_api.h (cublasStatus_t)"};
  const auto* known = std::ranges::find(kMeanings, status, &Meaning::status);
  const Meaning& meaning = known == kMeanings.end() ? kUnknown : *known;
  return Error{meaning.kind,
               fmt::format("[runtime/cuda] cannot {}: found cuBLASLt's status {} {} ({}), expected success; {}",
                           operation, static_cast<int>(status), meaning.name, meaning.meaning, meaning.advice)};
}

}  // namespace lockstep::cu
