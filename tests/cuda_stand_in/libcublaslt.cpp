// The stand-in of cuBLASLt: products in plain loops, in the order of the stream. It is part of the stand-in driver's
// library, so the same path serves as both. Strict about what the real one may take or refuse: layouts that do not fit
// each other, strides, memory that is not the device's, a workspace of another size, an algorithm of another product.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "runtime/core/dtype.h"
#include "runtime/core/hash.h"
#include "runtime/cuda/blas_abi.h"
#include "tests/cuda_stand_in/stream_work.h"

namespace lockstep::cu {

struct BlasHandleTag {};
struct BlasOperationTag {
  int32_t transposes_a = 0;
  uint32_t epilogue = 1;
  const void* bias = nullptr;
};
struct BlasLayoutTag {
  BlasType type;
  uint64_t rows;
  uint64_t columns;
  int64_t stride;

  size_t element() const { return type == kBlasF32 ? 4 : 2; }
  /// From the first element to behind the last.
  size_t bytes() const { return ((columns - 1) * static_cast<uint64_t>(stride) + rows) * element(); }
};
struct BlasPreferenceTag {
  uint64_t most_workspace = 0;
  uint32_t alignments[4] = {256, 256, 256, 256};
};

namespace {

constexpr size_t kWorkspace = 1024;  // that every algorithm asks for

BlasStatus wrong(const char* what) {
  fmt::print(stderr, "[cublasLt stand-in] {}\n", what);
  return kBlasInvalidValue;
}

DType dtype_of(BlasType type) {
  if (type == kBlasF32) return DType::kFloat32;
  return type == kBlasBf16 ? DType::kBFloat16 : DType::kFloat16;
}

float read(const void* from, BlasType type, uint64_t at) {
  float value = 0;
  const size_t element = type == kBlasF32 ? 4 : 2;
  convert_elements(static_cast<const std::byte*>(from) + at * element, dtype_of(type),
                   reinterpret_cast<std::byte*>(&value), DType::kFloat32, 1);
  return value;
}

/// Null, or what is wrong with the layouts together.
const char* mismatch(const BlasOperationTag& operation, const BlasLayoutTag& a, const BlasLayoutTag& b,
                     const BlasLayoutTag& c, const BlasLayoutTag& d) {
  if (operation.transposes_a != kBlasTransposed) return "found a plain first operand, expected a transposed one";
  if (a.rows != b.rows || a.columns != d.rows || b.columns != d.columns) return "the layouts do not fit each other";
  if (c.rows != d.rows || c.columns != d.columns || c.type != d.type) return "C and D differ";
  if (a.type != b.type) return "the operands have two types";
  if (d.type != a.type && d.type != kBlasF32) return "the result has neither the operands' type nor f32";
  if (operation.epilogue == kBlasEpilogueBias && (operation.bias == nullptr || d.type != a.type)) {
    return "a bias without memory, or of another type than the result";
  }
  return nullptr;
}

/// What an algorithm is for.
uint64_t key_of(const BlasOperationTag& operation, const BlasLayoutTag& a, const BlasLayoutTag& b,
                const BlasLayoutTag& d) {
  Fingerprint key;
  for (const BlasLayoutTag* layout : {&a, &b, &d}) {
    key.add(static_cast<int64_t>(layout->type)).add(static_cast<int64_t>(layout->rows));
    key.add(static_cast<int64_t>(layout->columns)).add(layout->stride);
  }
  return key.add(static_cast<int64_t>(operation.epilogue)).value();
}

/// D = Aᵀ · B (+ bias), column by column, sums in one chain.
void multiply(const BlasOperationTag& operation, const void* a, const BlasLayoutTag& of_a, const void* b,
              const BlasLayoutTag& of_b, void* d, const BlasLayoutTag& of_d) {
  for (uint64_t column = 0; column < of_d.columns; ++column) {
    for (uint64_t row = 0; row < of_d.rows; ++row) {
      float sum = 0;
      for (uint64_t k = 0; k < of_a.rows; ++k) {
        sum = std::fma(read(a, of_a.type, row * static_cast<uint64_t>(of_a.stride) + k),
                       read(b, of_b.type, column * static_cast<uint64_t>(of_b.stride) + k), sum);
      }
      if (operation.epilogue == kBlasEpilogueBias) sum += read(operation.bias, of_d.type, row);
      const uint64_t at = (column * static_cast<uint64_t>(of_d.stride) + row) * of_d.element();
      convert_elements(reinterpret_cast<const std::byte*>(&sum), DType::kFloat32, static_cast<std::byte*>(d) + at,
                       dtype_of(of_d.type), 1);
    }
  }
}

template <typename Object>
BlasStatus made(Object** object, const char* name, Object value) {
  if (count_call(name) != CUDA_SUCCESS) return kBlasAllocFailed;
  *object = new Object(value);
  count_objects(1);
  return kBlasSuccess;
}

template <typename Object>
BlasStatus freed(Object* object) {
  if (object == nullptr) return kBlasInvalidValue;
  delete object;
  count_objects(-1);
  return kBlasSuccess;
}

}  // namespace

extern "C" {

BlasStatus cublasLtCreate(BlasHandle* handle) {
  return has_current_context() ? made(handle, "LtCreate", BlasHandleTag{}) : kBlasNotInitialized;
}
BlasStatus cublasLtDestroy(BlasHandle handle) { return freed(handle); }

BlasStatus cublasLtMatmulDescCreate(BlasOperation* operation, BlasCompute compute, BlasType scale) {
  if (compute != kBlasComputeF32 || scale != kBlasF32) return kBlasNotSupported;
  return made(operation, "LtMatmulDescCreate", BlasOperationTag{});
}
BlasStatus cublasLtMatmulDescDestroy(BlasOperation operation) { return freed(operation); }

BlasStatus cublasLtMatmulDescSetAttribute(BlasOperation operation, BlasOperationAttribute attribute, const void* value,
                                          size_t bytes) {
  const auto set = [&](auto& field) {
    if (bytes != sizeof field) return wrong("an attribute of a wrong size");
    std::memcpy(&field, value, bytes);
    return kBlasSuccess;
  };
  switch (attribute) {
    case kBlasTransposeA: return set(operation->transposes_a);
    case kBlasEpilogue: return set(operation->epilogue);
    case kBlasBiasPointer: return set(operation->bias);
  }
  return kBlasNotSupported;
}

BlasStatus cublasLtMatrixLayoutCreate(BlasLayout* layout, BlasType type, uint64_t rows, uint64_t columns,
                                      int64_t stride) {
  if (rows == 0 || columns == 0 || stride < static_cast<int64_t>(rows)) return wrong("a layout of a wrong size");
  return made(layout, "LtMatrixLayoutCreate", BlasLayoutTag{type, rows, columns, stride});
}
BlasStatus cublasLtMatrixLayoutDestroy(BlasLayout layout) { return freed(layout); }

BlasStatus cublasLtMatmulPreferenceCreate(BlasPreference* preference) {
  return made(preference, "LtMatmulPreferenceCreate", BlasPreferenceTag{});
}
BlasStatus cublasLtMatmulPreferenceDestroy(BlasPreference preference) { return freed(preference); }

BlasStatus cublasLtMatmulPreferenceSetAttribute(BlasPreference preference, BlasPreferenceAttribute attribute,
                                                const void* value, size_t bytes) {
  if (attribute == kBlasMostWorkspace) {
    if (bytes != sizeof preference->most_workspace) return wrong("an attribute of a wrong size");
    std::memcpy(&preference->most_workspace, value, bytes);
    return kBlasSuccess;
  }
  const int operand = attribute - kBlasAlignmentA;
  if (operand < 0 || operand > 3 || bytes != sizeof(uint32_t)) return wrong("an attribute of a wrong size");
  std::memcpy(&preference->alignments[operand], value, bytes);
  return kBlasSuccess;
}

BlasStatus cublasLtMatmulAlgoGetHeuristic(BlasHandle, BlasOperation operation, BlasLayout a, BlasLayout b, BlasLayout c,
                                          BlasLayout d, BlasPreference preference, int wanted,
                                          BlasHeuristicResult* results, int* found) {
  if (count_call("LtMatmulAlgoGetHeuristic") != CUDA_SUCCESS) return kBlasInternalError;
  if (const char* what = mismatch(*operation, *a, *b, *c, *d)) return wrong(what);
  *found = 0;
  if (wanted < 1 || preference->most_workspace < kWorkspace) return kBlasSuccess;
  results[0] = {};
  results[0].algorithm.data[0] = key_of(*operation, *a, *b, *d);
  for (int operand = 0; operand < 4; ++operand)
    results[0].algorithm.data[1 + operand] = preference->alignments[operand];
  results[0].workspace_bytes = kWorkspace;
  *found = 1;
  return kBlasSuccess;
}

BlasStatus cublasLtMatmul(BlasHandle, BlasOperation operation, const void* alpha, const void* a, BlasLayout of_a,
                          const void* b, BlasLayout of_b, const void* beta, const void* c, BlasLayout of_c, void* d,
                          BlasLayout of_d, const BlasAlgorithm* algorithm, void* workspace, size_t workspace_bytes,
                          CUstream stream) {
  if (count_call("LtMatmul") != CUDA_SUCCESS) return kBlasExecutionFailed;
  float factors[2] = {};
  std::memcpy(&factors[0], alpha, sizeof(float));
  std::memcpy(&factors[1], beta, sizeof(float));
  if (factors[0] != 1.0f || factors[1] != 0.0f || c != d) return kBlasNotSupported;
  if (const char* what = mismatch(*operation, *of_a, *of_b, *of_c, *of_d)) return wrong(what);
  if (algorithm->data[0] != key_of(*operation, *of_a, *of_b, *of_d)) return wrong("an algorithm of another product");
  const void* addresses[4] = {a, b, c, d};
  for (int operand = 0; operand < 4; ++operand) {
    if (reinterpret_cast<uintptr_t>(addresses[operand]) % algorithm->data[1 + operand] != 0) {
      return wrong("memory that is less aligned than the algorithm was chosen for");
    }
  }
  if (workspace_bytes != kWorkspace) return wrong("a workspace of another size");
  // The layouts may go before the work runs.
  const CUresult status = enqueue_work(stream, [=, operation = *operation, of_a = *of_a, of_b = *of_b, of_d = *of_d] {
    const auto is_there = [](const void* address, size_t bytes) {
      return is_memory_of_device(reinterpret_cast<CUdeviceptr>(address), bytes);
    };
    if (!is_there(a, of_a.bytes()) || !is_there(b, of_b.bytes()) || !is_there(d, of_d.bytes()) ||
        !is_there(workspace, workspace_bytes)) {
      fmt::print(stderr, "[cublasLt stand-in] a product leaves the memory of the device\n");
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    std::memset(workspace, 0xff, workspace_bytes);
    multiply(operation, a, of_a, b, of_b, d, of_d);
    return CUDA_SUCCESS;
  });
  return status == CUDA_SUCCESS ? kBlasSuccess : kBlasExecutionFailed;
}

}  // extern "C"

}  // namespace lockstep::cu
