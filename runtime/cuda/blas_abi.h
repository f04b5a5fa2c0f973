// The part of cuBLASLt's C interface that is in use, by our own declarations. Source: cublasLt.h, cublas_api.h and
// library_types.h of CUDA 13.0; the same since CUDA 11.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "runtime/cuda/abi.h"

namespace lockstep::cu {

using BlasHandle = struct BlasHandleTag*;
using BlasOperation = struct BlasOperationTag*;  // cublasLtMatmulDesc_t
using BlasLayout = struct BlasLayoutTag*;
using BlasPreference = struct BlasPreferenceTag*;

enum BlasStatus : int {
  kBlasSuccess = 0,
  kBlasNotInitialized = 1,
  kBlasAllocFailed = 3,
  kBlasInvalidValue = 7,
  kBlasArchMismatch = 8,
  kBlasMappingError = 11,
  kBlasExecutionFailed = 13,
  kBlasInternalError = 14,
  kBlasNotSupported = 15,
};

enum BlasType : int { kBlasF32 = 0, kBlasF16 = 2, kBlasBf16 = 14 };  // cudaDataType_t
enum BlasCompute : int { kBlasComputeF32 = 68 };
enum BlasOperationAttribute : int {
  kBlasTransposeA = 3,  // int32_t: kBlasTransposed
  kBlasEpilogue = 7,    // uint32_t
  kBlasBiasPointer = 8,
};
constexpr int32_t kBlasTransposed = 1;
constexpr uint32_t kBlasEpilogueBias = 4;
enum BlasPreferenceAttribute : int {
  kBlasMostWorkspace = 1,  // uint64_t
  kBlasAlignmentA = 5,     // uint32_t, as those of B, C and D
  kBlasAlignmentB = 6,
  kBlasAlignmentC = 7,
  kBlasAlignmentD = 8,
};

struct BlasAlgorithm {
  uint64_t data[8];
};
struct BlasHeuristicResult {
  BlasAlgorithm algorithm;
  size_t workspace_bytes;
  BlasStatus state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(BlasHeuristicResult) == 96);

/// FUNCTION(name, result and parameters): cublasLt<name>.
#define LOCKSTEP_BLAS_FUNCTIONS(FUNCTION)                                                                              \
  FUNCTION(Create, BlasStatus (*)(BlasHandle*))                                                                        \
  FUNCTION(Destroy, BlasStatus (*)(BlasHandle))                                                                        \
  FUNCTION(MatmulDescCreate, BlasStatus (*)(BlasOperation*, BlasCompute, BlasType))                                    \
  FUNCTION(MatmulDescSetAttribute, BlasStatus (*)(BlasOperation, BlasOperationAttribute, const void*, size_t))         \
  FUNCTION(MatmulDescDestroy, BlasStatus (*)(BlasOperation))                                                           \
  FUNCTION(MatrixLayoutCreate, BlasStatus (*)(BlasLayout*, BlasType, uint64_t rows, uint64_t columns, int64_t stride)) \
  FUNCTION(MatrixLayoutDestroy, BlasStatus (*)(BlasLayout))                                                            \
  FUNCTION(MatmulPreferenceCreate, BlasStatus (*)(BlasPreference*))                                                    \
  FUNCTION(MatmulPreferenceSetAttribute, BlasStatus (*)(BlasPreference, BlasPreferenceAttribute, const void*, size_t)) \
  FUNCTION(MatmulPreferenceDestroy, BlasStatus (*)(BlasPreference))                                                    \
  FUNCTION(MatmulAlgoGetHeuristic,                                                                                     \
           BlasStatus (*)(BlasHandle, BlasOperation, BlasLayout a, BlasLayout b, BlasLayout c, BlasLayout d,           \
                          BlasPreference, int wanted, BlasHeuristicResult*, int* found))                               \
  FUNCTION(Matmul,                                                                                                     \
           BlasStatus (*)(BlasHandle, BlasOperation, const void* alpha, const void* a, BlasLayout, const void* b,      \
                          BlasLayout, const void* beta, const void* c, BlasLayout, void* d, BlasLayout,                \
                          const BlasAlgorithm*, void* workspace, size_t workspace_bytes, CUstream))

/// The library's functions.
struct BlasFunctions {
#define LOCKSTEP_BLAS_MEMBER(name, ...) std::type_identity_t<__VA_ARGS__> name = nullptr;
  LOCKSTEP_BLAS_FUNCTIONS(LOCKSTEP_BLAS_MEMBER)
#undef LOCKSTEP_BLAS_MEMBER
};

}  // namespace lockstep::cu
