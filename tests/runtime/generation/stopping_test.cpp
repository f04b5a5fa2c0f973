#include "runtime/generation/stopping.h"

#include <gtest/gtest.h>

#include "tests/runtime/generation/tiny_tokenizer.h"

namespace lockstep::generation {
namespace {

using Ids = std::vector<int32_t>;

bool is_met(const StoppingCriterion& criterion, const Ids& ids) { return criterion.is_met(ids, {}); }

TEST(MaxLength, IsMetByTheLengthAndAnyLonger) {
  const MaxLength criterion(10);
  EXPECT_FALSE(is_met(criterion, Ids(5)));
  EXPECT_FALSE(is_met(criterion, Ids(9)));
  EXPECT_TRUE(is_met(criterion, Ids(10)));
  EXPECT_TRUE(is_met(criterion, Ids(11)));
}

TEST(MaxTime, IsMetWhenMoreThanTheLimitHasPassedSinceTheRequestBegan) {
  ManualClock clock;
  const MaxTime criterion(clock, std::chrono::milliseconds(500));
  clock.advance(std::chrono::seconds(60));  // a model is loaded
  criterion.begin();
  EXPECT_FALSE(is_met(criterion, {1}));
  clock.advance(std::chrono::milliseconds(500));
  EXPECT_FALSE(is_met(criterion, {1}));
  clock.advance(std::chrono::milliseconds(1));
  EXPECT_TRUE(is_met(criterion, {1}));
}

TEST(EndToken, LooksAtTheLastIdOnly) {
  const EndToken criterion({0, 7});
  EXPECT_TRUE(is_met(criterion, {1, 0}));
  EXPECT_TRUE(is_met(criterion, {7}));
  EXPECT_FALSE(is_met(criterion, {0, 7, 1}));
  EXPECT_FALSE(is_met(criterion, {}));
}

// ---- stop strings -------------------------------------------------------------------------------------------------

class StopTextTest : public testing::Test {
 protected:
  bool stops(const std::vector<std::string>& strings, const Ids& ids) const {
    return is_met(StopText(*tokenizer_, strings), ids);
  }

  std::unique_ptr<text::Tokenizer> tokenizer_ = tiny_tokenizer();
};

TEST_F(StopTextTest, FindsAStringAcrossTokens) {
  EXPECT_TRUE(stops({"abc"}, {kC, kA, kBc}));
  EXPECT_TRUE(stops({"abc"}, {kC, kAb, kC}));
  EXPECT_TRUE(stops({"abc"}, {kA, kB, kC}));
  EXPECT_FALSE(stops({"abc"}, {kA, kC, kB}));
  EXPECT_TRUE(stops({"x", "bc"}, {kBc}));
}

TEST_F(StopTextTest, FindsAStringThatEndsInsideTheLastToken) {
  EXPECT_TRUE(stops({"ca"}, {kC, kAb}));
  EXPECT_TRUE(stops({"b"}, {kC, kBc}));
}

TEST_F(StopTextTest, PassesOverWhatWasThereBefore) {
  EXPECT_FALSE(stops({"ab"}, {kAb, kC}));
  EXPECT_FALSE(stops({"ab"}, {kAb, kAb, kC}));
  EXPECT_TRUE(stops({"ab"}, {kAb, kC, kAb}));
}

TEST_F(StopTextTest, PassesOverIdsThatNoTokenHas) {
  EXPECT_TRUE(stops({"abc"}, {kA, 99, kBc}));
  EXPECT_FALSE(stops({"ab"}, {kAb, 99}));
}

TEST_F(StopTextTest, ComparesBytes) {
  EXPECT_TRUE(stops({"€"}, {kA, kEuro1, kEuro2, kEuro3}));
  EXPECT_FALSE(stops({"€"}, {kA, kEuro1, kEuro2}));
  EXPECT_TRUE(stops({"€ b"}, {kEuro1, kEuro2, kEuro3, kSpace, kBc}));
  EXPECT_FALSE(stops({"€"}, {kEuro1, kEuro2, kEuro3, kSpace}));
}

TEST_F(StopTextTest, ReadsFarEnoughBackForALongString) {
  Ids ids(300, kA);
  ids.push_back(kC);
  EXPECT_TRUE(stops({std::string(200, 'a') + "c"}, ids));
  EXPECT_FALSE(stops({std::string(301, 'a') + "c"}, ids));
}

/// Against a search of the whole text, over all rows of four tokens.
TEST_F(StopTextTest, EqualsASearchOfTheWholeText) {
  const Ids alphabet{kA, kB, kC, kAb, kBc, kEuro1, kEuro2, kEuro3};
  const std::vector<std::string> strings{"abc", "cab", "€", "bb"};
  for (int code = 0; code < 8 * 8 * 8 * 8; ++code) {
    Ids ids;
    for (int i = 0, rest = code; i < 4; ++i, rest /= 8) ids.push_back(alphabet[static_cast<size_t>(rest % 8)]);
    const std::string before = tokenizer_->decode({ids.begin(), ids.end() - 1}, text::SpecialPieces::kKeep).value();
    const std::string whole = tokenizer_->decode(ids, text::SpecialPieces::kKeep).value();
    const auto count = [&](const std::string& text) {
      size_t found = 0;
      for (const std::string& string : strings) {
        for (size_t at = text.find(string); at != std::string::npos; at = text.find(string, at + 1)) ++found;
      }
      return found;
    };
    EXPECT_EQ(stops(strings, ids), count(whole) > count(before)) << whole;
  }
}

// ---- all together -------------------------------------------------------------------------------------------------

TEST(StoppingCriteria, EndForTheFirstReason) {
  GenerationConfig config;
  config.eos_token_ids = {2};
  const StoppingCriteria criteria = make_stopping(config, {.max_length = 3});
  EXPECT_EQ(criteria.check(Ids{5, 6}), std::nullopt);
  EXPECT_EQ(criteria.check(Ids{5, 2}), FinishReason::kEos);
  EXPECT_EQ(criteria.check(Ids{5, 6, 7}), FinishReason::kLength);
  EXPECT_EQ(criteria.check(Ids{5, 6, 2}), FinishReason::kEos);
}

TEST(StoppingCriteria, HaveEveryOptionOfTheConfiguration) {
  const auto tokenizer = tiny_tokenizer();
  ManualClock clock;
  GenerationConfig config;
  config.max_time = 0.5;
  config.stop_strings = {"bc"};
  const StoppingCriteria criteria =
      make_stopping(config, {.max_length = 100, .clock = &clock, .tokenizer = tokenizer.get()});
  criteria.begin();
  EXPECT_EQ(criteria.check(Ids{kA}), std::nullopt);
  EXPECT_EQ(criteria.check(Ids{kA, kBc}), FinishReason::kStop);
  clock.advance(std::chrono::seconds(1));
  EXPECT_EQ(criteria.check(Ids{kA}), FinishReason::kStop);
}

/// Ends when the best score is low.
class LowScore final : public StoppingCriterion {
 public:
  bool is_met(std::span<const int32_t>, std::span<const float> scores) const override {
    return !scores.empty() && scores[0] < -1.0f;
  }
  FinishReason reason() const override { return FinishReason::kStop; }
};

TEST(StoppingCriteria, TakeUsersCriteriaAndLetThemReplaceTheirKind) {
  StoppingContext context{.max_length = 3};
  context.users = {std::make_shared<LowScore>(), std::make_shared<MaxLength>(5)};
  const StoppingCriteria criteria = make_stopping({}, context);
  EXPECT_EQ(criteria.check(Ids{1, 2, 3}), std::nullopt);
  EXPECT_EQ(criteria.check(Ids{1, 2, 3}, std::vector{-2.0f}), FinishReason::kStop);
  EXPECT_EQ(criteria.check(Ids{1, 2, 3, 4, 5}), FinishReason::kLength);
}

}  // namespace
}  // namespace lockstep::generation
