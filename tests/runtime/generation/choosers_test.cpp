#include "runtime/generation/choosers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/generation/log_softmax.h"
#include "runtime/sampling/slot.h"
#include "tests/runtime/generation/hash_requests.h"
#include "tests/runtime/generation/tiny_tokenizer.h"

namespace lockstep::generation {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Ids = std::vector<int32_t>;

// ---- constraints ---------------------------------------------------------------------------------------------------

/// Allows `allowed` in order, then token 0.
class OneAnswer final : public constraint::Constraint {
 public:
  explicit OneAnswer(Ids allowed) : allowed_(std::move(allowed)) {}
  Result<std::unique_ptr<constraint::Matcher>> begin(const std::vector<int32_t>&) const override {
    class OneMatcher final : public constraint::Matcher {
     public:
      explicit OneMatcher(Ids allowed) : allowed_(std::move(allowed)) {}
      Result<void> mask(std::span<float> scores) override {
        const auto next = static_cast<size_t>(place_ < allowed_.size() ? allowed_[place_] : 0);
        for (size_t id = 0; id < scores.size(); ++id) {
          if (id != next) scores[id] = -INFINITY;
        }
        if (scores[next] > -INFINITY) return ok();
        return Error{ErrorKind::kFailedPrecondition, "found no token that may follow"};
      }
      Result<void> accept(int32_t) override { return ++place_, ok(); }
      bool has_ended() const override { return place_ > allowed_.size(); }

     private:
      Ids allowed_;
      size_t place_ = 0;
    };
    return std::unique_ptr<constraint::Matcher>(std::make_unique<OneMatcher>(allowed_));
  }

 private:
  Ids allowed_;
};

GenerationConfig ending_with_0() {
  GenerationConfig config;
  config.eos_token_ids = {0};
  return config;
}

TEST(ConstrainedRow, FollowsItsConstraintUntilTheEndTokenWhateverTheOptions) {
  for (const bool samples : {false, true}) {
    ChooserRequest request = request_of(ending_with_0());
    request.config.do_sample = samples;
    request.config.top_k = 2;
    request.config.remove_invalid_values = true;  // gives excluded tokens a score
    request.constraint = std::make_shared<OneAnswer>(Ids{5, 2, 5});
    const std::vector<Sequence> answers = run(request);
    EXPECT_THAT(answers[0].ids, ElementsAre(5, 2, 5, 0));
    EXPECT_EQ(answers[0].reason, FinishReason::kEos);
  }
}

TEST(ConstrainedRow, EndsWithAnErrorWhenOtherOptionsExcludeWhatItAllows) {
  ChooserRequest request = request_of(ending_with_0());
  request.config.suppress_tokens = {5};
  request.constraint = std::make_shared<OneAnswer>(Ids{5});
  const auto chooser = make_chooser(request).value();
  const Choice choice = chooser->choose(std::vector<float>(kVocabulary, 0.0f));
  ASSERT_TRUE(choice.error.has_value());
  EXPECT_EQ(choice.error->kind, ErrorKind::kFailedPrecondition);
}

TEST(ConstrainedRow, IsRefusedBesideBeams) {
  ChooserRequest request = request_of(ending_with_0());
  request.config.num_beams = 2;
  request.constraint = std::make_shared<OneAnswer>(Ids{5});
  EXPECT_EQ(make_chooser(request).error().kind, ErrorKind::kUnsupported);
}

// ---- one row ------------------------------------------------------------------------------------------------------

/// The choice of a graph's slot for the same logits.
Ids by_slot(const GenerationConfig& config, Ids ids, int32_t new_tokens, uint64_t row) {
  sampling::SlotRule rule{.parameters = config.sampling(row),
                          .min_new_tokens = config.least_new_tokens(std::ssize(ids)),
                          .max_new_tokens = new_tokens};
  rule.eos.fill(-1);
  std::ranges::copy(config.eos_token_ids, rule.eos.begin());
  const sampling::PackedRule packed = sampling::pack(rule);
  int32_t last_id = 0, output_index = 0, finished = 0;
  const sampling::SlotView slot{.numbers = packed.numbers.data(),
                                .integers = packed.integers.data(),
                                .seed = packed.seed.data(),
                                .eos = packed.eos.data(),
                                .eos_ids = sampling::kMaxEosIds,
                                .last_id = &last_id,
                                .output_index = &output_index,
                                .finished = &finished};
  sampling::Scratch scratch(kVocabulary);
  Ids tokens;
  while (finished == 0) {
    std::vector<uint8_t> seen(kVocabulary, 0);
    for (const int32_t id : ids) seen[static_cast<size_t>(id)] = 1;
    tokens.push_back(sampling::take_next(slot, hash_logits(ids, kVocabulary), seen, scratch));
    ids.push_back(tokens.back());
  }
  return tokens;
}

TEST(SampledChooser, ChoosesWhatAGraphsSlotChooses) {
  for (uint64_t trial = 0; trial < 60; ++trial) {
    GenerationConfig config;
    config.do_sample = trial % 4 != 0;
    config.seed = trial;
    config.top_p = 0.95;
    config.typical_p = trial % 3 == 0 ? 0.8 : 1.0;
    config.repetition_penalty = 1.2;
    config.eos_token_ids = {1, 2, 5};
    config.min_length = 5;
    ChooserRequest request = request_of(config, 14);
    request.row = trial;
    EXPECT_EQ(run(request)[0].ids, by_slot(config, request.prompt, 14, trial)) << trial;
  }
}

TEST(SampledChooser, FeedsItsRowAndTellsWhatIsCertain) {
  const auto chooser = make_chooser(request_of({}, 2)).value();
  EXPECT_EQ(chooser->rows(), 1);
  EXPECT_THAT(chooser->prompts(), ElementsAre(Ids{7, 3, 9}));
  std::vector<float> logits(kVocabulary, 0.0f);
  logits[4] = 1.0f;
  EXPECT_EQ(chooser->choose(logits), (Choice{.tokens = {4}, .sources = {0}, .finished = false}));
  EXPECT_THAT(chooser->certain(), ElementsAre(4));
  EXPECT_TRUE(chooser->choose(logits).finished);
  EXPECT_EQ(chooser->sequences()[0].ids, (Ids{4, 4}));
  EXPECT_EQ(chooser->sequences()[0].reason, FinishReason::kLength);
}

TEST(SampledChooser, IgnoresWhatIsNoNumberAndTakesTheFirstOneWhereNothingCanBeChosen) {
  for (const bool with_records : {false, true}) {
    GenerationConfig config;
    config.output_scores = with_records;
    ChooserRequest request = request_of(config);
    request.vocabulary = 4;
    const auto chooser = make_chooser(request).value();
    EXPECT_THAT(chooser->choose(std::vector<float>{NAN, 1.0f, 3.0f, 3.0f}).tokens, ElementsAre(2));
    EXPECT_THAT(chooser->choose(std::vector<float>{NAN, -INFINITY, -INFINITY, NAN}).tokens, ElementsAre(1));
    EXPECT_THAT(chooser->choose(std::vector<float>{NAN, NAN, NAN, NAN}).tokens, ElementsAre(0));
  }
}

TEST(SampledChooser, EndsOnStopStringsWhenItHasATokenizer) {
  const auto tokenizer = tiny_tokenizer();
  GenerationConfig config;
  config.stop_strings = {"ca"};
  ChooserRequest request = request_of(config);
  request.tokenizer = tokenizer.get();
  request.prompt = {kA};
  request.vocabulary = 11;
  const auto chooser = make_chooser(request).value();
  std::vector<float> logits(11, 0.0f);
  logits[kC] = 1.0f;
  EXPECT_FALSE(chooser->choose(logits).finished);
  logits[kAb] = 2.0f;
  EXPECT_TRUE(chooser->choose(logits).finished);
  EXPECT_EQ(chooser->sequences()[0].reason, FinishReason::kStop);
}

TEST(MakeChooser, CountsATimeLimitFromTheBeginningOfTheRequest) {
  for (const int32_t count : {1, 2}) {
    ManualClock clock;
    GenerationConfig config;
    config.num_beams = count;
    config.max_time = 0.5;
    ChooserRequest request = request_of(config);
    request.clock = &clock;
    const auto chooser = make_chooser(request).value();
    clock.advance(std::chrono::seconds(60));
    EXPECT_EQ(chooser->prompts().size(), static_cast<size_t>(count));
    const std::vector<float> logits(static_cast<size_t>(count * kVocabulary), 0.0f);
    EXPECT_FALSE(chooser->choose(logits).finished);
    clock.advance(std::chrono::milliseconds(501));
    EXPECT_TRUE(chooser->choose(logits).finished);
    EXPECT_EQ(chooser->sequences()[0].reason, FinishReason::kStop);
  }
}

// ---- records ------------------------------------------------------------------------------------------------------

TEST(TokenRecord, HoldsWhatWasAskedFor) {
  GenerationConfig config;
  config.repetition_penalty = 2.0;
  config.output_scores = true;
  config.output_logits = true;
  config.top_logprobs = 3;
  const Sequence answer = run(request_of(config, 4))[0];
  ASSERT_EQ(answer.records.size(), 4u);
  Ids ids{7, 3, 9};
  for (size_t i = 0; i < 4; ++i) {
    const TokenRecord& record = *answer.records[i];
    EXPECT_EQ(record.logits, hash_logits(ids, kVocabulary));
    EXPECT_NE(record.scores, record.logits);
    std::vector<float> logprobs = record.scores;
    log_softmax(logprobs);
    ASSERT_EQ(record.top.size(), 3u);
    EXPECT_EQ(record.top[0], (TokenLogprob{answer.ids[i], record.logprob}));
    EXPECT_GE(record.top[0].logprob, record.top[1].logprob);
    EXPECT_GE(record.top[1].logprob, record.top[2].logprob);
    EXPECT_EQ(record.logprob, logprobs[static_cast<size_t>(answer.ids[i])]);
    ids.push_back(answer.ids[i]);
  }
}

TEST(TokenRecord, IsNotMadeUnasked) { EXPECT_THAT(run(request_of({}))[0].records, IsEmpty()); }

// ---- guidance -----------------------------------------------------------------------------------------------------

TEST(GuidedChooser, FollowsThePromptsLastIdWhereThereIsNoNegativePrompt) {
  GenerationConfig config;
  config.guidance_scale = 2.0;
  ChooserRequest request = request_of(config);
  EXPECT_THAT(make_chooser(request).value()->prompts(), ElementsAre(Ids{7, 3, 9}, Ids{9}));
  request.negative_prompt = {4, 4};
  EXPECT_THAT(make_chooser(request).value()->prompts(), ElementsAre(Ids{7, 3, 9}, Ids{4, 4}));
}

TEST(GuidedChooser, FeedsBothRowsTheSameToken) {
  GenerationConfig config;
  config.guidance_scale = 2.0;
  const auto chooser = make_chooser(request_of(config)).value();
  std::vector<float> logits(2 * kVocabulary, 0.0f);
  logits[4] = 2.0f;                // likely with the prompt
  logits[kVocabulary + 4] = 2.0f;  // and without it: guidance does not favour it twice
  logits[5] = 1.9f;
  EXPECT_EQ(chooser->choose(logits), (Choice{.tokens = {5, 5}, .sources = {0, 1}, .finished = false}));
}

}  // namespace
}  // namespace lockstep::generation
