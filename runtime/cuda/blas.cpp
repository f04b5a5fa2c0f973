#include "runtime/cuda/blas.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "runtime/cuda/blas_status.h"

namespace lockstep::cu {
namespace {

constexpr const char* kOlder = "libcublasLt.so.12";

Error unavailable(std::string message) { return {ErrorKind::kUnavailable, "[runtime/cuda] " + std::move(message)}; }

BlasType type_of(DType dtype) {
  if (dtype == DType::kFloat32) return kBlasF32;
  return dtype == DType::kBFloat16 ? kBlasBf16 : kBlasF16;
}

/// The largest power of two up to 256 that divides an address.
uint32_t alignment_of(DeviceAddress address) {
  uint32_t alignment = 256;
  while (address.value % alignment != 0) alignment /= 2;
  return alignment;
}

std::string text_of(const MatmulShape& shape) {
  return fmt::format("[{}, {}] · [{}, {}]ᵀ of {}", shape.rows, shape.columns, shape.outputs, shape.columns,
                     to_string(shape.dtype));
}

}  // namespace

Result<std::unique_ptr<BlasLibrary>> BlasLibrary::open(const Context& context, const std::filesystem::path& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr && path == kDefault) library = dlopen(kOlder, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return unavailable(
        fmt::format("cannot load cuBLASLt for --numerics fast: found {}, expected {} to be a library; "
                    "install cuBLAS, name the file with --cublas, or omit --numerics fast",
                    dlerror(), path.string()));
  }
  std::unique_ptr<BlasLibrary> blas(new BlasLibrary);
  std::vector<std::string> missing;
#define LOCKSTEP_BLAS_FIND(name, ...)                                                                          \
  blas->functions_.name = reinterpret_cast<decltype(blas->functions_.name)>(dlsym(library, "cublasLt" #name)); \
  if (blas->functions_.name == nullptr) missing.push_back("cublasLt" #name);
  LOCKSTEP_BLAS_FUNCTIONS(LOCKSTEP_BLAS_FIND)
#undef LOCKSTEP_BLAS_FIND
  if (!missing.empty()) {
    return unavailable(fmt::format("cannot use {}: found no {}, expected cuBLASLt of CUDA 12 or 13; install one",
                                   path.string(), fmt::join(missing, ", ")));
  }
  LOCKSTEP_TRY_VOID(context.make_current());
  LOCKSTEP_TRY_VOID(check(blas->functions_.Create(&blas->handle_), "start cuBLASLt"));
  return blas;
}

BlasLibrary::~BlasLibrary() {
  if (handle_ != nullptr) functions_.Destroy(handle_);
}

Result<std::unique_ptr<Matmul>> Matmul::create(const BlasLibrary& library, const MatmulShape& shape) {
  std::unique_ptr<Matmul> product(new Matmul(library, shape));
  LOCKSTEP_TRY_VOID(product->describe());
  LOCKSTEP_TRY_VOID(product->choose());
  return product;
}

Matmul::~Matmul() {
  const BlasFunctions& call = library_.functions();
  if (preference_ != nullptr) call.MatmulPreferenceDestroy(preference_);
  for (const BlasLayout layout : {w_, x_, y_}) {
    if (layout != nullptr) call.MatrixLayoutDestroy(layout);
  }
  if (operation_ != nullptr) call.MatmulDescDestroy(operation_);
}

// The library's matrices lie column by column: a row-major [rows, columns] is its [columns, rows]. So it makes
// yᵀ [outputs, rows] of w, transposed, and xᵀ.
Result<void> Matmul::describe() {
  const BlasFunctions& call = library_.functions();
  const std::string what = "describe " + text_of(shape_);
  const auto layout = [&](BlasLayout& of, DType dtype, int64_t columns, int64_t rows, int64_t stride) {
    return check(call.MatrixLayoutCreate(&of, type_of(dtype), static_cast<uint64_t>(columns),
                                         static_cast<uint64_t>(rows), stride),
                 what);
  };
  LOCKSTEP_TRY_VOID(layout(w_, shape_.dtype, shape_.columns, shape_.outputs, shape_.w_stride));
  LOCKSTEP_TRY_VOID(layout(x_, shape_.dtype, shape_.columns, shape_.rows, shape_.x_stride));
  LOCKSTEP_TRY_VOID(layout(y_, shape_.result, shape_.outputs, shape_.rows, shape_.y_stride));
  LOCKSTEP_TRY_VOID(check(call.MatmulDescCreate(&operation_, kBlasComputeF32, kBlasF32), what));
  const auto set = [&](BlasOperationAttribute attribute, const auto& value) {
    return check(call.MatmulDescSetAttribute(operation_, attribute, &value, sizeof value), what);
  };
  LOCKSTEP_TRY_VOID(set(kBlasTransposeA, kBlasTransposed));
  if (shape_.bias.value == 0) return ok();
  LOCKSTEP_TRY_VOID(set(kBlasEpilogue, kBlasEpilogueBias));
  return set(kBlasBiasPointer, shape_.bias.value);
}

Result<void> Matmul::choose() {
  const BlasFunctions& call = library_.functions();
  const std::string what = "choose how to multiply " + text_of(shape_);
  LOCKSTEP_TRY_VOID(check(call.MatmulPreferenceCreate(&preference_), what));
  const auto set = [&](BlasPreferenceAttribute attribute, const auto& value) {
    return check(call.MatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof value), what);
  };
  LOCKSTEP_TRY_VOID(set(kBlasMostWorkspace, static_cast<uint64_t>(kWorkspaceBytes)));
  LOCKSTEP_TRY_VOID(set(kBlasAlignmentA, alignment_of(shape_.w)));
  LOCKSTEP_TRY_VOID(set(kBlasAlignmentB, alignment_of(shape_.x)));
  LOCKSTEP_TRY_VOID(set(kBlasAlignmentC, alignment_of(shape_.y)));
  LOCKSTEP_TRY_VOID(set(kBlasAlignmentD, alignment_of(shape_.y)));
  BlasHeuristicResult best{};
  int found = 0;
  LOCKSTEP_TRY_VOID(check(
      call.MatmulAlgoGetHeuristic(library_.handle(), operation_, w_, x_, y_, y_, preference_, 1, &best, &found), what));
  if (found < 1) return check(kBlasNotSupported, what);
  LOCKSTEP_TRY_VOID(check(best.state, what));
  algorithm_ = best.algorithm;
  workspace_bytes_ = best.workspace_bytes;
  return ok();
}

Result<void> Matmul::enqueue(Stream& stream, DeviceAddress workspace) const {
  const float one = 1.0f, zero = 0.0f;
  const auto at = [](DeviceAddress address) { return reinterpret_cast<void*>(address.value); };
  return check(library_.functions().Matmul(library_.handle(), operation_, &one, at(shape_.w), w_, at(shape_.x), x_,
                                           &zero, at(shape_.y), y_, at(shape_.y), y_, &algorithm_, at(workspace),
                                           workspace_bytes_, stream.native()),
               "multiply " + text_of(shape_));
}

}  // namespace lockstep::cu
