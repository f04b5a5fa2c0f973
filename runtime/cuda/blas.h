// Matrix products by cuBLASLt, loaded by name: for numerics whose sums may have any order.
#pragma once

#include <filesystem>
#include <memory>

#include "runtime/core/dtype.h"
#include "runtime/cuda/blas_abi.h"
#include "runtime/cuda/stream.h"

namespace lockstep::cu {

/// y [rows, outputs] = x [rows, columns] · w [outputs, columns]ᵀ (+ bias), all row by row; sums in f32. Strides are
/// elements between rows.
struct MatmulShape {
  DType dtype = DType::kBFloat16;   // of x, w and bias
  DType result = DType::kBFloat16;  // of y: `dtype` or f32
  int64_t rows = 0;
  int64_t outputs = 0;
  int64_t columns = 0;
  DeviceAddress x, w, y;
  DeviceAddress bias;  // [outputs]; 0: none; then `result` is `dtype`
  int64_t x_stride = 0, w_stride = 0, y_stride = 0;

  friend bool operator==(const MatmulShape&, const MatmulShape&) = default;
};

/// The library, for one context.
class BlasLibrary {
 public:
  static constexpr std::string_view kDefault = "libcublasLt.so.13";

  /// Loads `path`; where that is the default, `libcublasLt.so.12` too. Fails with `kUnavailable` saying what is
  /// missing. The context outlives it. @blocking
  static Result<std::unique_ptr<BlasLibrary>> open(const Context& context, const std::filesystem::path& path);
  ~BlasLibrary();
  BlasLibrary(const BlasLibrary&) = delete;
  BlasLibrary& operator=(const BlasLibrary&) = delete;

  const BlasFunctions& functions() const { return functions_; }
  BlasHandle handle() const { return handle_; }

 private:
  BlasLibrary() = default;

  BlasFunctions functions_;
  BlasHandle handle_ = nullptr;
};

/// A product with its algorithm, ready to be enqueued any number of times, also into a capture.
class Matmul {
 public:
  /// Bytes of device memory that a product may use while it runs.
  static constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;

  /// Chooses an algorithm. The library outlives the product. Fails with `kUnsupported` where there is none.
  static Result<std::unique_ptr<Matmul>> create(const BlasLibrary& library, const MatmulShape& shape);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  /// `workspace` has `kWorkspaceBytes`; products of one stream share it.
  Result<void> enqueue(Stream& stream, DeviceAddress workspace) const;

 private:
  Matmul(const BlasLibrary& library, const MatmulShape& shape) : library_(library), shape_(shape) {}
  Result<void> describe();
  Result<void> choose();

  const BlasLibrary& library_;
  const MatmulShape shape_;
  BlasOperation operation_ = nullptr;
  BlasLayout w_ = nullptr, x_ = nullptr, y_ = nullptr;
  BlasPreference preference_ = nullptr;
  BlasAlgorithm algorithm_{};
  size_t workspace_bytes_ = 0;
};

}  // namespace lockstep::cu
