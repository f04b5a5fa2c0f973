#include "runtime/generation/streamer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::generation {
namespace {

using std::chrono::milliseconds;

TEST(TokenTimes, MeasuresFromTheRequestAndFromTokenToToken) {
  ManualClock clock;
  TokenTimes times(clock);
  EXPECT_EQ(times.time_to_first_token(), std::nullopt);
  clock.advance(milliseconds(30));
  times.record();
  EXPECT_EQ(times.time_per_output_token(), std::nullopt);
  clock.advance(milliseconds(4));
  times.record();
  clock.advance(milliseconds(6));
  times.record();
  EXPECT_EQ(times.tokens(), 3u);
  EXPECT_EQ(times.time_to_first_token(), milliseconds(30));
  EXPECT_EQ(times.time_per_output_token(), milliseconds(5));
  EXPECT_THAT(times.latencies(), ::testing::ElementsAre(milliseconds(30), milliseconds(4), milliseconds(6)));
}

TEST(FinishReason, IsNamedAsInReports) {
  EXPECT_EQ(to_string(FinishReason::kEos), "eos");
  EXPECT_EQ(to_string(FinishReason::kLength), "length");
  EXPECT_EQ(to_string(FinishReason::kStop), "stop");
  EXPECT_EQ(to_string(FinishReason::kCancelled), "cancelled");
  EXPECT_EQ(to_string(FinishReason::kError), "error");
}

}  // namespace
}  // namespace lockstep::generation
