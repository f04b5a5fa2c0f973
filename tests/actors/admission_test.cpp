#include "actors/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/actors/fake_choosers.h"

namespace lockstep::actors {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr PlannerLimits kSmall{.slots = 3, .chunk = 4, .capacity = 10};

Request request(int length, int32_t new_tokens) {
  Request made{.id = RequestId(1), .ids = std::vector<int32_t>(static_cast<size_t>(length), 5), .parameters = {}};
  made.parameters.max_new_tokens = new_tokens;
  return made;
}

Request beams(std::vector<std::vector<int32_t>> prompts, int32_t new_tokens) {
  return request_with(1, std::make_shared<FakeBeams>(FakeBeams::Options{.prompts = std::move(prompts)}), new_tokens);
}

void expect_refused(const Request& bad, const PlannerLimits& limits, const char* what,
                    ErrorKind kind = ErrorKind::kInvalidArgument) {
  const auto admitted = admit(bad, limits);
  ASSERT_FALSE(admitted.has_value()) << what;
  EXPECT_EQ(admitted.error().kind, kind);
  EXPECT_THAT(admitted.error().message, HasSubstr(what));
}

TEST(Admit, NamesWhatDoesNotFit) {
  EXPECT_TRUE(admit(request(5, 6), kSmall).has_value());  // the last new token needs no room
  expect_refused(request(5, 7), kSmall, "at most 10");
  expect_refused(request(0, 1), kSmall, "empty prompt");
  expect_refused(request(1, 0), kSmall, "max_new_tokens 0");
  Request negative = request(3, 1);
  negative.ids[1] = -4;
  expect_refused(negative, kSmall, "token id -4 at index 1");
  Request many_eos = request(1, 1);
  many_eos.parameters.eos_ids.assign(17, 3);
  expect_refused(many_eos, kSmall, "17 EOS ids");
}

TEST(Admit, GivesEveryRowOfAChooserASlotThatTheGraphChoosesPlainlyFor) {
  Request three = beams({{4, 5}, {}, {}}, 6);
  three.parameters.eos_ids = {3};
  three.parameters.sampling.do_sample = true;
  three.parameters.pad_id = 8;
  const Admission admission = admit(three, kSmall).value();
  ASSERT_EQ(admission.rows.size(), 3u);
  EXPECT_TRUE(admission.host_chosen);
  EXPECT_EQ(admission.new_tokens, 6);
  EXPECT_THAT(admission.rows[1].ids, IsEmpty());
  EXPECT_EQ(admission.rows[2].parameters, (shards::SlotParameters{.max_new_tokens = 6, .eos_ids = {}, .pad_id = 8}));
}

TEST(Admit, RefusesChoosersThatCannotBeServed) {
  expect_refused(beams({{4}, {}, {}, {}}, 2), kSmall, "at most 3, the slots");
  expect_refused(beams({{}, {}}, 2), kSmall, "empty prompt");
  expect_refused(beams({{4}, {1, 2, 3, 4, 5}}, 7), kSmall, "at most 10");
  PlannerLimits drafts = kSmall;
  drafts.tokens_per_step = 4;
  expect_refused(beams({{4}}, 2), drafts, "drafted tokens", ErrorKind::kUnsupported);
  Request wants = request(1, 1);
  wants.logits = Logits::kWanted;
  expect_refused(wants, drafts, "drafted tokens", ErrorKind::kUnsupported);
}

TEST(Admit, CutsASequenceWhereTheRopeFactorsChange) {
  PlannerLimits border = kSmall;
  border.long_rope_after = 6;
  const auto admitted = [&](int prompt, int32_t new_tokens) {
    return admit(request(prompt, new_tokens), border).value();
  };
  EXPECT_FALSE(admitted(4, 3).goes_on);  // the seventh token is the last: nothing follows it
  EXPECT_FALSE(admitted(4, 3).rows[0].parameters.long_rope);
  const Admission first = admitted(4, 5);
  EXPECT_TRUE(first.goes_on);
  EXPECT_EQ(first.new_tokens, 3);
  EXPECT_EQ(first.rows[0].parameters.max_new_tokens, 3);
  EXPECT_EQ(admitted(6, 2).new_tokens, 1);
  EXPECT_FALSE(admitted(7, 2).goes_on);
  EXPECT_TRUE(admitted(7, 2).rows[0].parameters.long_rope);

  const Admission rest = admit(rest_of(request(4, 5), {1, 2, 3}), border).value();
  EXPECT_FALSE(rest.goes_on);
  EXPECT_EQ(rest.new_tokens, 2);
  EXPECT_EQ(rest.rows[0].ids, (std::vector<int32_t>{5, 5, 5, 5, 1, 2, 3}));
  EXPECT_EQ(rest.rows[0].parameters.max_new_tokens, 5);
  EXPECT_EQ(rest.rows[0].parameters.first_output, 3);
  EXPECT_TRUE(rest.rows[0].parameters.long_rope);
}

TEST(Admit, RefusesAChooserWhoseRowsWouldHaveToBeCut) {
  PlannerLimits border = kSmall;
  border.long_rope_after = 6;
  expect_refused(beams({{1, 2, 3, 4}, {}}, 5), border, "rope factors change", ErrorKind::kUnsupported);
  const Admission copies = admit(beams({{}, {1, 2, 3, 4, 5, 6, 7}}, 2), border).value();
  EXPECT_TRUE(copies.rows[0].parameters.long_rope);  // as the row that it will be a copy of
}

TEST(Admit, BlamesTheRequestForAChooserThatThrows) {
  class Thrower final : public generation::TokenChooser {
    int64_t rows() const override { return 1; }
    std::vector<std::vector<int32_t>> prompts() const override { throw std::runtime_error("no prompts today"); }
    generation::Choice choose(std::span<const float>) override { return {}; }
    std::span<const int32_t> certain() const override { return {}; }
    std::vector<generation::Sequence> sequences() const override { return {}; }
  };
  expect_refused(request_with(1, std::make_shared<Thrower>(), 2), kSmall, "no prompts today", ErrorKind::kInternal);
}

}  // namespace
}  // namespace lockstep::actors
