#include "launcher/process/progress_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace lockstep::launcher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace std::chrono_literals;

constexpr std::string_view kErase = "\r\x1b[K";

class ProgressLineTest : public ::testing::Test {
 protected:
  /// What stands on the line: all that was written behind the last erasure.
  std::string shown() const { return written_.substr(written_.rfind(kErase) + kErase.size()); }

  void load(int64_t done) { line_.show({Progress::Work::kLoading, done << 20, 100 << 20}); }
  void prefill(int64_t done) { line_.show({Progress::Work::kPrefill, done, 1000}); }

  std::string written_{kErase};
  int columns_ = 120;
  ManualClock clock_;
  ProgressLine line_{
      {.write = [this](std::string_view text) { written_ += text; }, .columns = [this] { return columns_; }}, clock_};
};

TEST_F(ProgressLineTest, ShowsBytesRateAndEstimateOfLoading) {
  load(0);
  clock_.advance(2s);
  load(50);
  EXPECT_EQ(shown(), "load    [#####     ]  50 %  50.00 MiB of 100.00 MiB, 25.00 MiB/s, 2 s left");
  load(100);
  EXPECT_EQ(shown(), "");
}

TEST_F(ProgressLineTest, ShowsNothingOfWorkThatIsSoonOver) {
  load(0);
  clock_.advance(200ms);
  load(90);
  load(100);
  prefill(0);
  clock_.advance(900ms);
  prefill(900);
  prefill(1000);
  EXPECT_EQ(written_, kErase);
}

TEST_F(ProgressLineTest, ShowsPromptsAfterASecond) {
  prefill(100);
  clock_.advance(1s);
  prefill(300);
  EXPECT_EQ(shown(), "prompts [###       ]  30 %  300 of 1000 tokens, 200 tokens/s, 4 s left");
}

TEST_F(ProgressLineTest, HoldsTheSpeedBetweenSteps) {
  prefill(0);
  clock_.advance(2s);
  prefill(200);
  clock_.advance(2s);
  prefill(200);
  EXPECT_THAT(shown(), HasSubstr("100 tokens/s, 8 s left"));
  clock_.advance(2s);
  prefill(201);
  EXPECT_THAT(shown(), HasSubstr("34 tokens/s, 24 s left"));
}

TEST_F(ProgressLineTest, ShowsRowsAtOnceAndNothingOfPromptsBesideThem) {
  line_.show_rows(20, 100, 0);  // of an earlier start
  EXPECT_EQ(shown(), "rows    [##        ]  20 %  20 of 100 rows");
  clock_.advance(10s);
  prefill(500);
  line_.show_rows(60, 100, 85);
  EXPECT_EQ(shown(), "rows    [######    ]  60 %  60 of 100 rows, 8.5 tokens/s, 10 s left");
  line_.show_rows(100, 100, 170);
  EXPECT_EQ(shown(), "");
}

TEST_F(ProgressLineTest, IsWipedBeforeOtherLinesAndDrawnAgainBehindThem) {
  std::vector<std::string> on_screen;
  const Log log(line_.before([&](LogLevel, std::string_view line) {
    on_screen.push_back(shown());
    written_ += std::string(line) + "\n" + std::string(kErase);
  }));
  log.info("first");
  line_.show_rows(1, 10, 0);
  log.info("second");
  EXPECT_THAT(on_screen, ElementsAre("", ""));
  EXPECT_EQ(shown(), "");
  line_.show_rows(2, 10, 0);
  EXPECT_THAT(shown(), StartsWith("rows"));
  line_.wipe();
  EXPECT_EQ(shown(), "");
}

TEST_F(ProgressLineTest, StaysAwayOnceItIsClosed) {
  line_.show_rows(1, 10, 0);
  line_.close();
  EXPECT_EQ(shown(), "");
  const std::string before = written_;
  clock_.advance(5s);
  line_.show_rows(2, 10, 0);
  line_.close();
  EXPECT_EQ(written_, before);
}

TEST_F(ProgressLineTest, IsNotDrawnMoreOftenThanEyesCanFollow) {
  line_.show_rows(1, 10, 0);
  const std::string before = written_;
  clock_.advance(10ms);
  line_.show_rows(2, 10, 0);
  EXPECT_EQ(written_, before);
}

TEST_F(ProgressLineTest, FitsIntoNarrowTerminals) {
  columns_ = 30;
  line_.show_rows(1, 10, 0);
  EXPECT_EQ(shown().size(), 29U);
}

TEST(ProgressLine, WritesNothingWithoutAScreen) {
  const ManualClock clock;
  ProgressLine line({}, clock);
  EXPECT_FALSE(line.is_shown());
  line.show_rows(1, 10, 0);
  line.wipe();
  EXPECT_FALSE(stderr_screen(ShowProgress::kNever).write);
  EXPECT_TRUE(stderr_screen(ShowProgress::kAlways).write);
}

}  // namespace
}  // namespace lockstep::launcher
