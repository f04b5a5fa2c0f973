// Host tensors for tests: from numbers or a hash, back to numbers, compared with a tolerance.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/core/shape.h"
#include "runtime/device/backend.h"

namespace lockstep::conformance {

/// A row-major tensor that owns its bytes.
struct TensorData {
  TensorType type;
  std::vector<std::byte> bytes;

  device::HostTensor view() const { return {type, bytes}; }
};

/// Tensors by name.
using Contents = std::map<std::string, TensorData, std::less<>>;

/// `values` rounded to `dtype`, as a tensor of `shape`.
TensorData tensor(DType dtype, Shape shape, const std::vector<double>& values);
TensorData int_tensor(Shape shape, const std::vector<int32_t>& values);
TensorData zeros(TensorType type);
/// Numbers in [−scale, scale) that depend on `seed` and the index alone.
TensorData random_tensor(TensorType type, uint64_t seed, double scale = 1.0);

std::vector<double> numbers_of(const TensorData& data);
std::vector<int32_t> ints_of(const TensorData& data);

/// `v` as the nearest value of `dtype`.
double round_to(DType dtype, double v);

/// How far two results of one node may be apart, as a share of the largest magnitude in the expected tensor.
///
/// f32: sums over some hundred terms in another order differ by a few units of 2⁻²⁴ each. bf16 and f16: the f32 values
/// before rounding differ that little, so a value may be rounded to the neighbour: one unit in the last place, 2⁻⁷ or
/// 2⁻¹⁰ of the value. `roundings` counts the roundings between the operands and the result.
double tolerance_of(DType dtype, int roundings = 1);

/// Whether all elements are within `tolerance` of the largest finite magnitude of `expected`. Integers must be equal;
/// infinities must be the same, and a NaN expects a NaN.
testing::AssertionResult is_near(const TensorData& actual, const TensorData& expected, double tolerance);

/// Whether type and bytes are equal.
testing::AssertionResult is_same(const TensorData& actual, const TensorData& expected);

}  // namespace lockstep::conformance
