#include "tests/conformance/backend/tensor_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace lockstep::conformance {
namespace {

/// A bit mixer: neighbouring inputs give unrelated outputs.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

bool element_is_near(double actual, double expected, double allowed) {
  if (std::isnan(expected)) return std::isnan(actual);
  if (std::isinf(expected) || std::isinf(actual)) return actual == expected;
  return std::abs(actual - expected) <= allowed;
}

}  // namespace

TensorData tensor(DType dtype, Shape shape, const std::vector<double>& values) {
  LOCKSTEP_CHECK(shape.elements() == static_cast<int64_t>(values.size()), shape.elements(), values.size());
  TensorData data = zeros({dtype, std::move(shape)});
  const std::vector<float> floats(values.begin(), values.end());
  convert_elements(reinterpret_cast<const std::byte*>(floats.data()), DType::kFloat32, data.bytes.data(), dtype,
                   floats.size());
  return data;
}

TensorData int_tensor(Shape shape, const std::vector<int32_t>& values) {
  LOCKSTEP_CHECK(shape.elements() == static_cast<int64_t>(values.size()), shape.elements(), values.size());
  TensorData data = zeros({DType::kInt32, std::move(shape)});
  if (!values.empty()) std::memcpy(data.bytes.data(), values.data(), data.bytes.size());
  return data;
}

TensorData zeros(TensorType type) {
  const auto bytes = static_cast<size_t>(type.bytes());
  return {std::move(type), std::vector<std::byte>(bytes)};
}

TensorData random_tensor(TensorType type, uint64_t seed, double scale) {
  std::vector<double> values(static_cast<size_t>(type.shape.elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t bits = mix(mix(seed + 1) + i) >> 40;  // 24 bits
    values[i] = (static_cast<double>(bits) / (1 << 23) - 1.0) * scale;
  }
  return tensor(type.dtype, type.shape, values);
}

std::vector<double> numbers_of(const TensorData& data) {
  const auto count = static_cast<size_t>(data.type.shape.elements());
  if (is_float(data.type.dtype)) {
    std::vector<float> floats(count);
    convert_elements(data.bytes.data(), data.type.dtype, reinterpret_cast<std::byte*>(floats.data()), DType::kFloat32,
                     count);
    return {floats.begin(), floats.end()};
  }
  std::vector<double> numbers;
  if (data.type.dtype == DType::kInt32) {
    for (const int32_t v : ints_of(data)) numbers.push_back(v);
  } else {
    for (const std::byte b : data.bytes) numbers.push_back(static_cast<double>(b));
  }
  return numbers;
}

std::vector<int32_t> ints_of(const TensorData& data) {
  LOCKSTEP_CHECK(data.type.dtype == DType::kInt32, to_string(data.type));
  std::vector<int32_t> values(data.bytes.size() / sizeof(int32_t));
  if (!values.empty()) std::memcpy(values.data(), data.bytes.data(), data.bytes.size());
  return values;
}

double round_to(DType dtype, double v) {
  const auto narrow = static_cast<float>(v);
  if (dtype == DType::kBFloat16) return to_float(to_bfloat16(narrow));
  if (dtype == DType::kFloat16) return to_float(to_float16(narrow));
  return narrow;
}

double tolerance_of(DType dtype, int roundings) {
  if (dtype == DType::kBFloat16) return roundings * 0x1p-7;
  if (dtype == DType::kFloat16) return roundings * 0x1p-10;
  return 4e-6 * roundings;
}

testing::AssertionResult is_near(const TensorData& actual, const TensorData& expected, double tolerance) {
  if (actual.type != expected.type) {
    return testing::AssertionFailure() << "found " << to_string(actual.type) << ", expected "
                                       << to_string(expected.type);
  }
  if (!is_float(expected.type.dtype)) return is_same(actual, expected);
  const std::vector<double> found = numbers_of(actual);
  const std::vector<double> wanted = numbers_of(expected);
  double scale = 0;
  for (const double v : wanted) scale = std::isfinite(v) ? std::max(scale, std::abs(v)) : scale;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (element_is_near(found[i], wanted[i], tolerance * scale)) continue;
    return testing::AssertionFailure() << "element " << i << " of " << to_string(expected.type) << ": found "
                                       << found[i] << ", expected " << wanted[i] << " within " << tolerance * scale;
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult is_same(const TensorData& actual, const TensorData& expected) {
  if (actual.type != expected.type) {
    return testing::AssertionFailure() << "found " << to_string(actual.type) << ", expected "
                                       << to_string(expected.type);
  }
  const auto differing = std::mismatch(actual.bytes.begin(), actual.bytes.end(), expected.bytes.begin());
  if (differing.first == actual.bytes.end()) return testing::AssertionSuccess();
  const auto element = (differing.first - actual.bytes.begin()) / static_cast<int64_t>(size_of(actual.type.dtype));
  return testing::AssertionFailure() << "element " << element << " of " << to_string(expected.type) << ": found "
                                     << numbers_of(actual)[static_cast<size_t>(element)] << ", expected "
                                     << numbers_of(expected)[static_cast<size_t>(element)];
}

}  // namespace lockstep::conformance
