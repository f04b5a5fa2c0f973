// Tests of accepted requests and their numbers of tokens.
#include "engine/requests/request_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "engine/requests/sizing.h"
#include "lockstep/engine.h"
#include "tests/model/tiny_models.h"

namespace lockstep::requests {
namespace {

using model::kTinyLlama;
using model::TinyModel;
using ::testing::HasSubstr;

/// Allows every token.
class KeepsAll final : public LogitsProcessor {
 public:
  void process(std::span<const int32_t>, std::span<float>) const override {}
};

class RequestCheckTest : public ::testing::Test {
 protected:
  Model model(const ModelOptions& options = {}) const { return Model::open(folder_.path(), options).value(); }

  Request request(std::vector<int32_t> ids, const std::map<std::string, std::string>& options = {}) const {
    Request request{.prompt = {.ids = std::move(ids)}, .config = model().generation()};
    for (const auto& [name, value] : options) EXPECT_TRUE(request.config.set(name, value).has_value()) << name;
    return request;
  }

  int32_t budget(const Request& request, int64_t capacity = 64) const {
    return budget_of(request, model(), capacity).value();
  }

  void expect_refused(const Request& request, const Limits& limits, const std::string& words,
                      ErrorKind kind = ErrorKind::kInvalidArgument, const ModelOptions& options = {}) const {
    const auto checked = check(request, model(options), limits);
    ASSERT_FALSE(checked.has_value()) << words;
    EXPECT_EQ(checked.error().kind, kind);
    EXPECT_THAT(checked.error().message, HasSubstr(words));
  }

  TinyModel folder_{kTinyLlama};
  const Limits limits_{.slots = 2, .capacity = 64};
};

TEST_F(RequestCheckTest, FillsTheSlotWhereNoLengthIsAsked) {
  EXPECT_EQ(budget(request({1, 3, 4})), 64 - 3 + 1);
  EXPECT_EQ(budget(request({1, 3, 4}, {{"max_new_tokens", "5"}})), 5);
}

TEST_F(RequestCheckTest, CountsThePromptToTheGreatestLength) {
  EXPECT_EQ(budget(request({1, 3, 4}, {{"max_length", "10"}})), 7);
  EXPECT_EQ(budget(request({5, 6}, {{"max_length", "10"}})), 8);
  expect_refused(request({1, 3, 4}, {{"max_length", "3"}}), limits_,
                 "the prompt does not fit: found 3 tokens and --max-length 3");
}

TEST_F(RequestCheckTest, TakesTheLengthOfTheModelsFileWhereNoOptionGivesOne) {
  folder_.write("generation_config.json", R"({"max_length": 10})");
  EXPECT_EQ(budget(request({1, 3, 4}, {{"max_new_tokens", "5"}})), 5);
  EXPECT_EQ(budget(request({1, 3, 4})), 10 - 3);
  EXPECT_EQ(budget(request({1, 3, 4}, {{"max_length", "12"}})), 12 - 3);
  folder_.write("generation_config.json", R"({"max_length": 10, "max_new_tokens": 4})");
  EXPECT_EQ(budget(request({1, 3, 4})), 4);
  EXPECT_EQ(budget(request({1, 3, 4}, {{"max_length", "12"}})), 12 - 3);
  EXPECT_EQ(budget(request({1, 3, 4}), 5), 5 - 3 + 1);  // the file knew no slot
  folder_.write("generation_config.json", R"({"max_length": 3})");
  expect_refused(request({1, 3, 4}), limits_, "found 3 tokens and the model's max_length 3, expected a length beyond");
}

TEST_F(RequestCheckTest, RefusesWhatDoesNotFitASlot) {
  const Request five = request({1, 3, 4}, {{"max_new_tokens", "5"}});
  expect_refused(five, {.slots = 1, .capacity = 6},
                 "found 3 tokens and --max-new-tokens 5, expected at most 7 together");
  expect_refused(five, {.slots = 1, .capacity = 2}, "found 3 tokens, expected at most 2");
  Request guided = request({1}, {{"guidance_scale", "2"}, {"max_new_tokens", "5"}});
  guided.prompt.negative = {4, 5, 6};
  expect_refused(guided, {.slots = 2, .capacity = 2}, "found 3 tokens, expected at most 2");
  expect_refused(guided, {.slots = 2, .capacity = 6}, "found 3 tokens and --max-new-tokens 5");
}

TEST_F(RequestCheckTest, RefusesPromptsThatTheModelCannotTake) {
  expect_refused(request({}), limits_, "no tokens");
  expect_refused(request({1, 32}), limits_, "found token id 32");
  expect_refused(request({-1}), limits_, "found token id -1");
  Request guided = request({1}, {{"guidance_scale", "2"}});
  guided.prompt.negative = {99};
  expect_refused(guided, limits_, "found token id 99");
}

TEST_F(RequestCheckTest, RefusesANegativePromptWithoutGuidance) {
  Request negative = request({1});
  negative.prompt.negative = {3};
  expect_refused(negative, limits_, "a negative prompt without guidance");
}

TEST_F(RequestCheckTest, RefusesMoreRowsThanSlots) {
  expect_refused(request({1}, {{"num_beams", "3"}}), limits_, "found 2 slots, expected at least 3");
}

TEST_F(RequestCheckTest, RefusesHostWorkWhereTheLogitsStayOnTheDevices) {
  const Limits graphs{.slots = 2, .capacity = 64, .choosers = Choosers::kNone};
  const ErrorKind kind = ErrorKind::kUnsupported;
  expect_refused(request({1}, {{"num_beams", "2"}}), graphs, "options that the host has to apply (num_beams)", kind);
  Request logits = request({1});
  logits.config.output_logits = true;
  expect_refused(logits, graphs, "found output_logits", kind);
  Request own = request({1});
  own.processors = {std::make_shared<KeepsAll>()};
  expect_refused(own, graphs, "code of the caller's", kind);
  expect_refused(own, {.slots = 2, .capacity = 64, .drafts = 2}, "beside drafted tokens", kind);
  EXPECT_TRUE(check(own, model(), limits_).has_value());
  EXPECT_TRUE(check(request({1}), model(), graphs).has_value());
}

TEST_F(RequestCheckTest, LeavesOutWhatIsMaskedUnlessAWindowWouldCountIt) {
  Request holes = request({1, 3, 4}, {{"max_new_tokens", "5"}});
  holes.prompt.masked_inside = 2;
  const Limits limits{.slots = 1, .capacity = 16};
  EXPECT_TRUE(check(holes, model({.window = 9}), limits).has_value());  // 5 ids and 4 of the 5 new ones
  const std::string words = "found 2 masked tokens inside and up to 9 tokens in all, expected at most 8";
  expect_refused(holes, limits, words, ErrorKind::kUnsupported, {.window = 8});
  checkpoint::ModelSpec stretched = model().spec();
  stretched.rope.kind = checkpoint::RopeSpec::Kind::kLongrope;
  stretched.rope.original_max_positions = 8;
  EXPECT_EQ(check_masked(holes.prompt, 5, stretched).error().kind, ErrorKind::kUnsupported);
  stretched.rope.original_max_positions = 9;
  EXPECT_TRUE(check_masked(holes.prompt, 5, stretched).has_value());
}

TEST_F(RequestCheckTest, GoesBeyondTheModelsPositionsWhereTheyHaveNoEnd) {
  const Model streaming = model({.window = 8, .pinned_sinks = 2});
  const Request longer = request({1, 3, 4}, {{"max_new_tokens", "100"}});
  EXPECT_TRUE(check(longer, streaming, {.slots = 1, .capacity = 102}).has_value());
  EXPECT_EQ(sized_for(streaming, std::vector{longer.prompt}, longer.config).value().capacity, 102);
  EXPECT_EQ(check_request(model(), {}, longer).error().kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::requests
