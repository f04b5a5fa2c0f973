#include "runtime/generation/token_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::generation {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::vector<float> kLogits = {2.0f, 0.0f, 1.0f, 2.0f};  // the model's
const std::vector<float> kScores = {0.0f, 5.0f, 0.0f, 0.0f};  // after processors

TEST(TokenRecord, TellsTheModelsOwnLogProbabilitiesApartFromThoseOfTheScores) {
  const auto record = record_token({.top = 1, .model_top = 2}, kLogits, kScores, /*token=*/2);
  ASSERT_NE(record, nullptr);
  const double total = std::log(2 * std::exp(2.0) + std::exp(0.0) + std::exp(1.0));
  EXPECT_NEAR(record->model_logprob.value(), 1.0 - total, 1e-6);
  ASSERT_THAT(record->model_top, SizeIs(2));  // ties to the lower id
  EXPECT_EQ(record->model_top[0].id, 0);
  EXPECT_EQ(record->model_top[1].id, 3);
  EXPECT_NEAR(record->model_top[0].logprob, 2.0 - total, 1e-6);
  EXPECT_NEAR(record->logprob, -std::log(std::exp(5.0) + 3.0), 1e-6);
  ASSERT_THAT(record->top, SizeIs(1));
  EXPECT_EQ(record->top[0].id, 1);
}

TEST(TokenRecord, HasTheModelsAloneWithoutScores) {
  const auto record = record_token({.model_top = 0}, kLogits, {}, /*token=*/0);
  EXPECT_TRUE(record->model_logprob.has_value());
  EXPECT_THAT(record->model_top, IsEmpty());
  EXPECT_THAT(record->top, IsEmpty());
  EXPECT_THAT(record_token({.model_top = 9}, kLogits, {}, 0)->model_top, SizeIs(4));  // the whole vocabulary
  EXPECT_EQ(record_token({}, kLogits, kScores, 0), nullptr);
  EXPECT_FALSE(record_token({.top = 1}, kLogits, kScores, 0)->model_logprob.has_value());
}

}  // namespace
}  // namespace lockstep::generation
