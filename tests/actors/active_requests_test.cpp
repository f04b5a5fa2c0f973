#include "actors/active_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/core/check.h"
#include "tests/actors/collecting_sink.h"
#include "tests/actors/fake_choosers.h"

namespace lockstep::actors {
namespace {

using generation::FinishReason;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr RequestId kA{1};
constexpr RequestId kB{2};
constexpr RequestId kC{3};

Request request(RequestId id, int32_t new_tokens, std::vector<int32_t> eos = {}) {
  Request made{.id = id, .ids = {1}, .parameters = {}};
  made.parameters.max_new_tokens = new_tokens;
  made.parameters.eos_ids = std::move(eos);
  return made;
}

StepResult result(int32_t schedule, std::vector<int32_t> tokens) { return {schedule, 0, std::move(tokens), {}}; }

TEST(ActiveRequests, GivesTokensToWhoeverOwnsTheSlotInThatSchedule) {
  ActiveRequests book;
  CollectingSink sink;
  book.open(request(kA, 2), sink);
  book.open(request(kB, 9), sink);
  book.note_schedule(0, {kA, std::nullopt});
  book.note_schedule(1, {kB, std::nullopt});  // sent ahead, before the results of 0
  EXPECT_THAT(book.take(result(0, {5, -1})).ended, IsEmpty());
  const auto ended = book.take(result(0, {6, -1})).ended;
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].request, kA);
  EXPECT_EQ(ended[0].reason, FinishReason::kLength);
  EXPECT_THAT(book.take(result(0, {0, -1})).ended, IsEmpty());  // padding of a finished slot
  book.take(result(1, {7, -1}));
  EXPECT_THAT(sink.answer(kA).tokens, ElementsAre(5, 6));
  EXPECT_THAT(sink.answer(kB).tokens, ElementsAre(7));
}

TEST(ActiveRequests, EndsWithTheEosTokenInTheOutput) {
  ActiveRequests book;
  CollectingSink sink;
  book.open(request(kA, 2, {4, 6}), sink);
  book.note_schedule(0, {kA});
  book.take(result(0, {5}));
  EXPECT_EQ(book.take(result(0, {6})).ended[0].reason, FinishReason::kEos);  // also where it is the last that fits
  EXPECT_THAT(sink.answer(kA).tokens, ElementsAre(5, 6));
  EXPECT_EQ(sink.answer(kA).reason, FinishReason::kEos);
  EXPECT_TRUE(book.empty());
}

TEST(ActiveRequests, StopsAtTheTokenThatTheSinkSays) {
  ActiveRequests book;
  CollectingSink sink(
      [](RequestId, const auto& tokens) { return tokens.size() == 2 ? Verdict::kStop : Verdict::kContinue; });
  book.open(request(kA, 9), sink);
  book.note_schedule(0, {kA});
  for (int32_t token = 5; token < 9; ++token) book.take(result(0, {token}));
  EXPECT_THAT(sink.answer(kA).tokens, ElementsAre(5, 6));
  EXPECT_EQ(sink.answer(kA).reason, FinishReason::kStop);
  EXPECT_EQ(sink.answer(kA).finishes, 1);
}

TEST(ActiveRequests, HandsOutTheRequestsOwnRowOfLogitsWhenWanted) {
  ActiveRequests book;
  CollectingSink sink;
  Request wants = request(kB, 9);
  wants.logits = Logits::kWanted;
  book.open(request(kA, 9), sink);
  book.open(wants, sink);
  book.note_schedule(0, {kA, kB});
  book.take({.tokens = {5, 6}, .logits_of = {SlotId(1)}, .logits = {3, 4}});
  EXPECT_THAT(sink.answer(kA).logits.at(0), IsEmpty());
  EXPECT_THAT(sink.answer(kB).logits.at(0), ElementsAre(3, 4));
}

TEST(ActiveRequests, FeedsTheTokensOfAStepOneByOneAndDropsWhatFollowsTheEnd) {
  ActiveRequests book;
  CollectingSink sink([](RequestId id, const auto& tokens) {
    return id == kC && tokens.size() == 2 ? Verdict::kStop : Verdict::kContinue;
  });
  book.open(request(kA, 9, {6}), sink);
  book.open(request(kB, 2), sink);
  book.open(request(kC, 9), sink);
  book.note_schedule(0, {kA, kB, kC, std::nullopt});
  const auto ended = book.take(result(0, {5, 6, 7, 1, 2, 3, 8, 9, 10, -1, -1, -1})).ended;
  EXPECT_EQ(ended.size(), 3u);
  EXPECT_THAT(sink.answer(kA).tokens, ElementsAre(5, 6));
  EXPECT_THAT(sink.answer(kB).tokens, ElementsAre(1, 2));
  EXPECT_THAT(sink.answer(kC).tokens, ElementsAre(8, 9));
}

TEST(ActiveRequests, TakesAsManyTokensAsDraftsCameTrue) {
  ActiveRequests book;
  CollectingSink sink;
  book.open(request(kA, 4), sink);
  book.note_schedule(0, {kA});
  book.take(result(0, {0, -1, -1}));  // token 0 is a token like others
  book.take(result(0, {5, 0, -1}));
  EXPECT_THAT(sink.answer(kA).tokens, ElementsAre(0, 5, 0));
}

TEST(ActiveRequests, HandsBackTheRestOfADividedRequestAndIgnoresThePaddingOfItsFirstPart) {
  ActiveRequests book;
  CollectingSink sink;
  const Request whole = request(kA, 5);
  book.open(whole, sink);
  book.divide(whole, 2);
  book.note_schedule(0, {kA});
  book.note_schedule(1, {kA});  // planned before the accepted drafts were known
  EXPECT_THAT(book.take(result(0, {5, -1})).rests, IsEmpty());
  const auto rests = book.take(result(0, {6, 99})).rests;
  EXPECT_THAT(rests, ElementsAre(rest_of(whole, {5, 6})));
  book.take(result(1, {0, -1}));  // padding
  book.note_schedule(2, {kA});
  book.take(result(2, {7, 8}));
  EXPECT_EQ(book.take(result(2, {9, 10})).ended.size(), 1u);
  EXPECT_THAT(sink.answer(kA).tokens, ElementsAre(5, 6, 7, 8, 9));
  EXPECT_EQ(sink.answer(kA).reason, FinishReason::kLength);
}

TEST(ActiveRequests, EndsADividedRequestInItsFirstPart) {
  ActiveRequests book;
  CollectingSink sink;
  const Request whole = request(kA, 5, {6});
  book.open(whole, sink);
  book.divide(whole, 2);
  book.note_schedule(0, {kA});
  book.take(result(0, {5}));
  const auto taken = book.take(result(0, {6}));
  EXPECT_THAT(taken.rests, IsEmpty());
  EXPECT_EQ(taken.ended.at(0).reason, FinishReason::kEos);
}

TEST(ActiveRequests, ShowsWhatAChooserMadeCertainAndEndsWhenItSaysSo) {
  HostChoosers choosers;
  ActiveRequests book(&choosers);
  CollectingSink sink;
  const auto chooser = std::make_shared<FakeBeams>(FakeBeams::Options{.prompts = {{1}}});
  book.open(request_with(1, chooser, 2), sink);
  book.note_schedule(0, {kA});
  const auto said = [](std::vector<int32_t> certain, std::optional<FinishReason> finished) {
    return StepResult{.tokens = {-1},
                      .choices = {{.request = kA, .certain = std::move(certain), .finished = finished}}};
  };
  book.take(said({}, std::nullopt));
  EXPECT_THAT(book.take(said({4, 5, 6}, std::nullopt)).ended, IsEmpty());  // more than one at once, beyond the budget
  EXPECT_EQ(book.take(said({7}, FinishReason::kStop)).ended.size(), 1u);
  EXPECT_THAT(sink.answer(kA).tokens, ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(sink.answer(kA).reason, FinishReason::kStop);
  book.take(said({8}, FinishReason::kEos));
  EXPECT_EQ(sink.answer(kA).finishes, 1);
}

TEST(ActiveRequests, OwnsASlotOnlyWhenNoScheduleUnderWayGivesItToAnother) {
  ActiveRequests book;
  CollectingSink sink;
  book.open(request(kA, 9), sink);
  book.open(request(kB, 9), sink);
  EXPECT_FALSE(book.owns(kA, SlotId(0)));
  book.note_schedule(0, {kA});
  EXPECT_TRUE(book.owns(kA, SlotId(0)));
  book.note_schedule(1, {kB});
  EXPECT_FALSE(book.owns(kA, SlotId(0)));
  EXPECT_FALSE(book.owns(kB, SlotId(0)));
  EXPECT_THAT(book.drop_schedule(0), ElementsAre(kA));  // still open, and nowhere any more
  EXPECT_TRUE(book.owns(kB, SlotId(0)));
}

TEST(ActiveRequests, TellsEveryOpenRequestOfAFailure) {
  ActiveRequests book;
  CollectingSink sink;
  book.open(request(kA, 9), sink);
  book.open(request(kB, 9), sink);
  const Error error{ErrorKind::kPeerLost, "rank 1 was lost", 1};
  book.fail_all(error);
  for (const RequestId id : {kA, kB}) {
    EXPECT_EQ(sink.answer(id).reason, FinishReason::kError);
    EXPECT_EQ(sink.answer(id).error, error);
  }
  EXPECT_TRUE(book.empty());
}

TEST(ActiveRequests, ChecksThatResultsBelongToAKnownSchedule) {
  ActiveRequests book;
  EXPECT_THROW(book.take(result(0, {5})), CheckFailure);
}

}  // namespace
}  // namespace lockstep::actors
