#include "runtime/backends/aten/operations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace lockstep::aten {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::FloatNear;
using ::testing::HasSubstr;

TEST(MultiplyTransposed, ReadsSlicesOfWiderMatrices) {
  const std::vector<float> x = {1, 2, 9, /**/ 3, 4, 9};  // columns 0 and 1 of three
  const std::vector<float> w = {9, 1, 1, /**/ 9, 0, 2};  // columns 1 and 2
  std::vector<float> y(4);
  multiply_transposed({x.data(), 2, 2, 3}, {w.data() + 1, 2, 2, 3}, dense(y.data(), 2, 2)).value();
  EXPECT_THAT(y, ElementsAre(3, 4, 7, 8));
}

TEST(MultiplyTransposed, SumsNothingToZero) {
  std::vector<float> y = {5, 5};
  const std::vector<float> none(1);
  multiply_transposed(dense(none.data(), 1, 0), dense(none.data(), 2, 0), dense(y.data(), 1, 2)).value();
  EXPECT_THAT(y, ElementsAre(0, 0));
}

TEST(Multiply, MultipliesRowsByColumns) {
  const std::vector<float> x = {1, 2};
  const std::vector<float> y = {1, 2, 3, /**/ 10, 20, 30};
  std::vector<float> z(3);
  multiply(dense(x.data(), 1, 2), dense(y.data(), 2, 3), dense(z.data(), 1, 3)).value();
  EXPECT_THAT(z, ElementsAre(21, 42, 63));
}

TEST(SoftmaxRows, GivesSharesOfOne) {
  const std::vector<float> x = {0, std::log(3.0f), /**/ 1000, 1000};
  std::vector<float> y(4);
  softmax_rows(dense(x.data(), 2, 2), dense(y.data(), 2, 2)).value();
  EXPECT_NEAR(y[0], 0.25, 1e-6);
  EXPECT_NEAR(y[1], 0.75, 1e-6);
  EXPECT_THAT(y[2], FloatEq(0.5f));
}

TEST(Gelu, HasAnExactFormAndOneByTanh) {
  const std::vector<float> x = {0, 1, -2};
  std::vector<float> exact(3), tanh(3);
  gelu(dense(x.data(), 1, 3), GeluForm::kExact, dense(exact.data(), 1, 3)).value();
  gelu(dense(x.data(), 1, 3), GeluForm::kTanh, dense(tanh.data(), 1, 3)).value();
  EXPECT_THAT(exact, ElementsAre(0.0f, FloatNear(0.841345f, 1e-6f), FloatNear(-0.0455003f, 1e-6f)));
  EXPECT_THAT(tanh, ElementsAre(0.0f, FloatNear(0.841192f, 1e-6f), FloatNear(-0.0454023f, 1e-6f)));
}

TEST(AtenOperations, TurnTheLibrarysExceptionsIntoErrors) {
  std::vector<float> x(4);
  std::vector<float> y(2);
  const auto result = silu(dense(x.data(), 2, 2), {y.data(), 2, 2, /*row_stride=*/0});  // two rows in one place
  ASSERT_TRUE(result.has_error());
  EXPECT_EQ(result.error().kind, ErrorKind::kInternal);
  EXPECT_THAT(result.error().message, HasSubstr("[runtime/backends/aten] silu failed"));
}

TEST(AtenOperations, RefuseStridesThatTheLibraryWouldDieOf) {
  std::vector<float> x(4);
  EXPECT_TRUE(silu({x.data() + 2, 2, 2, -2}, dense(x.data(), 2, 2)).has_error());
}

}  // namespace
}  // namespace lockstep::aten
