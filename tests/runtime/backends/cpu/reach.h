// Tests the effect of single elements: each element of each operand is replaced by special values. These are NaN,
// infinities, zeros, denormals and the largest numbers of its type. Outputs that do not read the element keep every
// bit; the others agree with a model in double precision.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "runtime/backends/cpu/kernels/kernels.h"
#include "runtime/core/dtype.h"
#include "tests/runtime/backends/cpu/product_fixture.h"

namespace lockstep::cpu {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr int64_t kTails[] = {1, 2, 15, 16, 17, 33};  // around one vector and two
inline constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
inline constexpr uint16_t kGuard = 0xabcd;

/// An operand by reference: values of `dtype` held as float32.
struct ReachOperand {
  const char* name;
  std::vector<float>* values;
  DType dtype = DType::kFloat32;
};

/// A kernel over the operands, and its expected result.
struct ReachCase {
  std::string name;
  std::vector<ReachOperand> operands;
  std::function<std::vector<float>()> run;
  std::function<std::vector<double>()> model;
  double tolerance = 1e-5;  // relative, except for numbers below 1
};

/// `value` as `dtype` holds it.
inline float rounded_to_type(float value, DType dtype) {
  if (dtype == DType::kBFloat16) return to_float(to_bfloat16(value));
  return dtype == DType::kFloat16 ? to_float(to_float16(value)) : value;
}

inline std::vector<float> special_numbers(DType dtype) {
  std::vector<float> numbers = {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity, 0.0f, -0.0f};
  if (dtype == DType::kFloat16) {
    numbers.insert(numbers.end(), {65504.0f, -65504.0f, 6e-8f});
  } else if (dtype == DType::kBFloat16) {
    numbers.insert(numbers.end(), {3.3895314e38f, -3.3895314e38f, 1e-40f});
  } else {
    numbers.insert(numbers.end(), {std::numeric_limits<float>::max(), -std::numeric_limits<float>::max(), 1e-40f});
  }
  for (float& number : numbers) number = rounded_to_type(number, dtype);
  return numbers;
}

/// Whether `found` is `exact`, rounded: the same infinity, or near.
inline bool is_rounded(float found, double exact, double tolerance) {
  if (std::isnan(exact)) return std::isnan(found);
  const auto rounded = static_cast<float>(exact);
  if (std::isinf(rounded) || std::isinf(found)) {
    // At the border of the range a rounding decides between the largest number and infinity.
    constexpr double kLargest = std::numeric_limits<float>::max();
    const double border = kLargest * (1.0 - 8 * tolerance);
    const bool is_at_border = std::abs(exact) > border && std::abs(exact) < kLargest * (1.0 + 8 * tolerance);
    return found == rounded || (is_at_border && std::abs(found) > border && std::signbit(found) == std::signbit(exact));
  }
  return std::abs(found - exact) <= tolerance * std::max(1.0, std::abs(exact));
}

/// Checks the property described at the top of this file.
inline void expect_exact_reach(const ReachCase& c) {
  const std::vector<float> before = c.run();
  const std::vector<double> exact_before = c.model();
  ASSERT_EQ(before.size(), exact_before.size()) << c.name;
  for (size_t i = 0; i < before.size(); ++i) {
    ASSERT_TRUE(is_rounded(before[i], exact_before[i], c.tolerance))
        << c.name << ", output " << i << ": found " << before[i] << ", expected " << exact_before[i];
  }
  for (const ReachOperand& operand : c.operands) {
    for (size_t at = 0; at < operand.values->size(); ++at) {
      for (const float number : special_numbers(operand.dtype)) {
        const float kept = std::exchange((*operand.values)[at], number);
        const std::vector<float> found = c.run();
        const std::vector<double> exact = c.model();
        (*operand.values)[at] = kept;
        for (size_t i = 0; i < found.size(); ++i) {
          const bool is_unchanged = std::bit_cast<uint64_t>(exact[i]) == std::bit_cast<uint64_t>(exact_before[i]);
          const bool is_right = is_unchanged ? std::bit_cast<uint32_t>(found[i]) == std::bit_cast<uint32_t>(before[i])
                                             : is_rounded(found[i], exact[i], c.tolerance);
          ASSERT_TRUE(is_right) << c.name << ", " << operand.name << "[" << at << "] = " << number << ", output " << i
                                << ": found " << found[i] << ", expected " << exact[i]
                                << (is_unchanged ? fmt::format(", as before ({})", before[i]) : "");
        }
      }
    }
  }
}

/// Relative error of a result that is rounded to `dtype` once.
inline double tolerance_of(DType dtype) {
  if (dtype == DType::kFloat32) return 4e-6;
  return dtype == DType::kBFloat16 ? 1.0 / 200 : 1.0 / 1600;
}

/// Numbers between 0.25 and 2 of both signs, exact in every type, with nothing that cancels to zero.
inline std::vector<float> numbers(int64_t count, uint32_t seed) {
  std::vector<float> values = random_numbers(count, seed);
  for (float& value : values) value = std::copysign(0.25f + std::abs(value) * 0.75f, value == 0.0f ? 1.0f : value);
  for (float& value : values) value = rounded_to_type(value, DType::kBFloat16);
  return values;
}

inline ConstRow row_of(const std::vector<std::byte>& bytes, DType dtype) { return {bytes.data(), dtype}; }

/// Calls `kernel(dst)` for a row of `count` elements with a guard behind it; returns the written values as float32.
template <typename Kernel>
std::vector<float> written(DType dtype, int64_t count, Kernel kernel) {
  std::vector<std::byte> bytes(static_cast<size_t>(count) * size_of(dtype) + sizeof kGuard);
  std::memcpy(bytes.data() + bytes.size() - sizeof kGuard, &kGuard, sizeof kGuard);
  kernel(Row{bytes.data(), dtype});
  EXPECT_EQ(std::memcmp(bytes.data() + bytes.size() - sizeof kGuard, &kGuard, sizeof kGuard), 0) << "overrun";
  std::vector<float> values(static_cast<size_t>(count));
  convert_elements(bytes.data(), dtype, reinterpret_cast<std::byte*>(values.data()), DType::kFloat32, values.size());
  return values;
}

/// Tests of every instruction set.
class Reach : public ::testing::TestWithParam<Isa> {
 protected:
  const Kernels& kernels() const { return kernels_for(GetParam()); }
};

}  // namespace lockstep::cpu
