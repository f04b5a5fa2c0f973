#include "launcher/serve/door/token_rate.h"

#include <gtest/gtest.h>

#include <chrono>

namespace lockstep::serve {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{};

TEST(TokenRate, CountsTheTokensSinceTheLastSample) {
  TokenRate rate(kStart);
  EXPECT_DOUBLE_EQ(rate.sample(100, kStart + 2s), 50.0);
  EXPECT_DOUBLE_EQ(rate.sample(110, kStart + 3s), 10.0);
  EXPECT_DOUBLE_EQ(rate.sample(110, kStart + 4s), 0.0);
}

TEST(TokenRate, KeepsASampleForHalfASecond) {
  TokenRate rate(kStart);
  EXPECT_DOUBLE_EQ(rate.sample(100, kStart + 1s), 100.0);
  EXPECT_DOUBLE_EQ(rate.sample(500, kStart + 1400ms), 100.0);
  EXPECT_DOUBLE_EQ(rate.sample(600, kStart + 2s), 500.0);
}

}  // namespace
}  // namespace lockstep::serve
