// The fixtures of the suite: a test per backend, or per backend and floating-point type.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "tests/conformance/backend/session.h"

namespace lockstep::conformance {

/// Runs for every backend.
class EveryBackend : public testing::TestWithParam<BackendUnderTest> {};

inline std::string backend_name(const testing::TestParamInfo<BackendUnderTest>& info) { return info.param.name; }

/// Runs for every backend and every floating-point type that it supports.
class EveryBackendAndType : public testing::TestWithParam<std::tuple<BackendUnderTest, DType>> {
 protected:
  void SetUp() override {
    const std::vector<DType> supported = backend().make(/*threads=*/1).value()->capabilities().dtypes;
    if (std::find(supported.begin(), supported.end(), dtype()) == supported.end()) {
      GTEST_SKIP() << backend().name << " does not offer " << to_string(dtype());
    }
  }

  const BackendUnderTest& backend() const { return std::get<0>(GetParam()); }
  DType dtype() const { return std::get<1>(GetParam()); }

  /// Numbers in [−scale, scale) of the test's type.
  TensorData random(Shape shape, uint64_t seed, double scale = 1.0) const {
    return random_tensor({dtype(), std::move(shape)}, seed, scale);
  }
  void expect_case_conforms(const Case& c, int roundings = 1) const {
    const auto [actual, expected] = expect_conforms(backend(), c, tolerance_of(dtype(), roundings));
    expect_same_roundings(actual, expected);
  }
};

inline std::string backend_and_type_name(const testing::TestParamInfo<std::tuple<BackendUnderTest, DType>>& info) {
  return std::get<0>(info.param).name + "_" + std::string(to_string(std::get<1>(info.param)));
}

inline auto every_backend() { return testing::ValuesIn(backends_under_test()); }
inline auto every_backend_and_type() {
  return testing::Combine(every_backend(), testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16));
}

}  // namespace lockstep::conformance

/// Instantiates a suite that is an alias of the fixture.
#define LOCKSTEP_FOR_EVERY_BACKEND(Suite)                                             \
  INSTANTIATE_TEST_SUITE_P(Backends, Suite, ::lockstep::conformance::every_backend(), \
                           ::lockstep::conformance::backend_name)
#define LOCKSTEP_FOR_EVERY_BACKEND_AND_TYPE(Suite)                                             \
  INSTANTIATE_TEST_SUITE_P(Backends, Suite, ::lockstep::conformance::every_backend_and_type(), \
                           ::lockstep::conformance::backend_and_type_name)
