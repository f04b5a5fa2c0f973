#include "runtime/generation/streamer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/generation/token_times.h"
#include "tests/runtime/generation/tiny_tokenizer.h"
#include "tests/runtime/text/blank_tokenizer.h"

namespace lockstep::generation {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

/// Records its input.
class Recorder final : public Streamer {
 public:
  void put(std::string_view text) override { pieces.emplace_back(text); }
  void end(FinishReason reason) override { pieces.push_back("end: " + std::string(to_string(reason))); }

  std::vector<std::string> pieces;
};

TEST(TextStreamer, PassesOnTextAsTokensCome) {
  const auto tokenizer = tiny_tokenizer();
  Recorder recorder;
  TextStreamer streamer(*tokenizer, recorder, PromptText::kShow);
  EXPECT_TRUE(streamer.put(std::vector{kAb, kC}).has_value());
  EXPECT_TRUE(streamer.put(std::vector{kSpace}).has_value());
  EXPECT_TRUE(streamer.put(std::vector{kBc, kEnd}).has_value());
  EXPECT_TRUE(streamer.end(FinishReason::kEos).has_value());
  EXPECT_THAT(recorder.pieces, ElementsAre("abc", " ", "bc", "end: eos"));
}

TEST(TextStreamer, SkipsThePromptAndHoldsBackUnfinishedCharacters) {
  const auto tokenizer = tiny_tokenizer();
  Recorder recorder;
  TextStreamer streamer(*tokenizer, recorder, PromptText::kSkip);
  for (const int32_t id : {kA, kB, kEuro1, kEuro2, kEuro3, kEuro1}) {
    EXPECT_TRUE(streamer.put(std::vector{id}).has_value());
  }
  EXPECT_TRUE(streamer.end(FinishReason::kLength).has_value());
  EXPECT_THAT(recorder.pieces, ElementsAre("b", "", "", "€", "", "\xEF\xBF\xBD", "end: length"));
}

TEST(TextStreamer, GoesOnBehindAPromptThatItSkips) {
  const auto tokenizer = text::blank_tokenizer();
  Recorder recorder;
  TextStreamer streamer(*tokenizer, recorder, PromptText::kSkip);
  for (const int32_t id : {text::kThe, text::kParis}) EXPECT_TRUE(streamer.put(std::vector{id}).has_value());
  EXPECT_TRUE(streamer.end(FinishReason::kLength).has_value());
  EXPECT_THAT(recorder.pieces, ElementsAre(" Paris", "end: length"));
}

TEST(TextStreamer, ShowsNothingForAnIdThatNoTokenHas) {
  const auto tokenizer = tiny_tokenizer();
  Recorder recorder;
  TextStreamer streamer(*tokenizer, recorder, PromptText::kShow);
  EXPECT_TRUE(streamer.put(std::vector{kA, 99, kB}).has_value());
  EXPECT_TRUE(streamer.put(std::vector{99}).has_value());
  EXPECT_TRUE(streamer.put(std::vector{kEuro1, 99, kEuro2, kEuro3}).has_value());
  EXPECT_TRUE(streamer.end(FinishReason::kLength).has_value());
  EXPECT_THAT(recorder.pieces, ElementsAre("ab", "", "€", "end: length"));
}

TEST(TokenTimes, MeasuresFromTheRequestAndFromTokenToToken) {
  const TimePoint submitted = TimePoint() + milliseconds(5);
  TokenTimes times{.submitted = submitted, .made = {}};
  EXPECT_EQ(times.time_to_first_token(), std::nullopt);
  times.made = {submitted + milliseconds(30)};
  EXPECT_EQ(times.time_per_output_token(), std::nullopt);
  times.made = {submitted + milliseconds(30), submitted + milliseconds(34), submitted + milliseconds(40)};
  EXPECT_EQ(times.time_to_first_token(), milliseconds(30));
  EXPECT_EQ(times.time_per_output_token(), milliseconds(5));
  EXPECT_THAT(times.latencies(), ElementsAre(milliseconds(30), milliseconds(4), milliseconds(6)));
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
