#include "actors/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "tests/actors/collecting_sink.h"
#include "tests/actors/test_session.h"

namespace lockstep::actors {
namespace {

using ::testing::HasSubstr;

class SessionOfRanks : public ::testing::TestWithParam<std::tuple<int, Processes>> {
 protected:
  int size() const { return std::get<0>(GetParam()); }
  Processes processes() const { return std::get<1>(GetParam()); }
};

TEST_P(SessionOfRanks, AnswersMorePromptsThanSlotsAndEndsWell) {
  TestSession test(size(), processes(), {.slots = 2, .chunk = 4}, {.decode_steps = 3, .prefill_steps = 2});
  CollectingSink sink;
  std::vector<Request> requests;
  for (int i = 0; i < 7; ++i) requests.push_back(request(i, prompt(1 + 5 * i % 13, i), 1 + 3 * i));
  for (const Request& r : requests) test.client().submit(r, sink);
  test.client().finish();
  test.start();
  test.join();
  for (int r = 0; r < size(); ++r) {
    EXPECT_TRUE(test.rank(r).result.has_value()) << test.rank(r).result.error().message;
    EXPECT_FALSE(test.rank(r).abort.is_raised());
    EXPECT_EQ(test.rank(r).engine.ran(), test.rank(0).engine.ran());
    EXPECT_EQ(test.session_of(r).status(RankId(r)).phase, Phase::kEnded);
  }
  for (const Request& r : requests) {
    const Answer answer = sink.answer(r.id);
    EXPECT_EQ(answer.tokens, expected_answer(r.ids, r.parameters)) << r.id.value;
    EXPECT_EQ(answer.reason, generation::FinishReason::kLength);
    EXPECT_EQ(answer.finishes, 1);
  }
  EXPECT_EQ(test.unasked(), 0);
  EXPECT_EQ(test.steps(), size() * static_cast<int>(test.rank(0).engine.ran().size()));
}

TEST_P(SessionOfRanks, EndsEveryRankWithTheErrorOfTheRankThatFailed) {
  TestSession test(size(), processes());
  CollectingSink sink;
  const int failing = size() - 1;
  test.rank(failing).engine.fail_at(5, {ErrorKind::kResourceExhausted, "[fake engine] no memory is left"});
  test.client().submit(request(1, prompt(3, 1), 60), sink);
  test.start();
  test.join();
  for (int r = 0; r < size(); ++r) {
    ASSERT_FALSE(test.rank(r).result.has_value());
    const Error& error = test.rank(r).result.error();
    EXPECT_EQ(error.kind, ErrorKind::kResourceExhausted);
    EXPECT_EQ(error.origin_rank, failing);
    EXPECT_THAT(error.message, HasSubstr("decode, schedule 0, step 5"));
    EXPECT_EQ(test.rank(r).abort.reason(), error);
  }
  const Answer answer = sink.answer(RequestId(1));
  EXPECT_EQ(answer.reason, generation::FinishReason::kError);
  EXPECT_EQ(answer.error, test.rank(0).result.error());
  EXPECT_EQ(answer.finishes, 1);
  EXPECT_LE(answer.tokens.size(), 4u);  // step 4 was not agreed on
}

TEST_P(SessionOfRanks, CancelEndsAllRanks) {
  TestSession test(size(), processes());
  CollectingSink sink;
  test.rank(0).engine.block_at(6);
  test.client().submit(request(1, prompt(3, 1), 60), sink);
  test.start();
  ASSERT_TRUE(test.rank(0).engine.wait_until_blocked());
  test.session_of(size() - 1).cancel();
  test.join();
  for (int r = 0; r < size(); ++r) {
    ASSERT_FALSE(test.rank(r).result.has_value());
    EXPECT_EQ(test.rank(r).result.error().kind, ErrorKind::kCancelled);
  }
  EXPECT_EQ(sink.answer(RequestId(1)).reason, generation::FinishReason::kCancelled);
}

TEST_P(SessionOfRanks, ServesRequestsThatComeWhileOthersRun) {
  TestSession test(size(), processes());
  CollectingSink sink;
  test.start();
  for (int i = 0; i < 4; ++i) {
    const Request r = request(i, prompt(6, i), 9);
    test.client().submit(r, sink);
    ASSERT_TRUE(sink.wait_for_finish(r.id));
    EXPECT_EQ(sink.answer(r.id).tokens, expected_answer(r.ids, r.parameters));
  }
  test.client().finish();
  test.join();
  for (int r = 0; r < size(); ++r) EXPECT_TRUE(test.rank(r).result.has_value());
}

TEST_P(SessionOfRanks, StopsEarlyAtEos) {
  TestSession test(size(), processes());
  CollectingSink sink;
  Request early = request(1, prompt(5, 1), 50);
  early.parameters.eos_ids = {expected_answer(early.ids, early.parameters)[3]};
  const auto expected = expected_answer(early.ids, early.parameters);
  test.client().submit(early, sink);
  test.client().finish();
  test.start();
  test.join();
  EXPECT_EQ(sink.answer(early.id).tokens, expected);
  EXPECT_EQ(sink.answer(early.id).reason, generation::FinishReason::kEos);
  EXPECT_EQ(test.rank(0).engine.ran().size(), 1 + expected.size());  // two chunks, then a step a token
}

TEST_P(SessionOfRanks, StopsAtTheTokenThatTheSinkSaysAndTellsTheEngine) {
  TestSession test(size(), processes(), {.slots = 1});
  CollectingSink sink([](RequestId id, const auto& tokens) {
    return id == RequestId(1) && tokens.size() == 3 ? Verdict::kStop : Verdict::kContinue;
  });
  const Request stopped = request(1, prompt(3, 1), 60), other = request(2, prompt(3, 2), 8);
  test.client().submit(stopped, sink);
  test.client().submit(other, sink);
  test.client().finish();
  test.start();
  test.join();
  auto expected = expected_answer(stopped.ids, stopped.parameters);
  expected.resize(3);
  EXPECT_EQ(sink.answer(stopped.id).tokens, expected);
  EXPECT_EQ(sink.answer(stopped.id).reason, generation::FinishReason::kStop);
  EXPECT_EQ(sink.answer(other.id).tokens, expected_answer(other.ids, other.parameters));
  EXPECT_TRUE(test.rank(0).result.has_value());
}

INSTANTIATE_TEST_SUITE_P(ThreadsAndProcesses, SessionOfRanks,
                         ::testing::Combine(::testing::Values(1, 2, 3),
                                            ::testing::Values(Processes::kOne, Processes::kOnePerRank)),
                         [](const auto& tested) {
                           return std::to_string(std::get<0>(tested.param)) +
                                  (std::get<1>(tested.param) == Processes::kOne ? "RanksInOneSystem" : "Systems");
                         });

TEST(Session, LosesARankAndTellsTheSurvivorsWhich) {
  TestSession test(3, Processes::kOnePerRank);
  CollectingSink sink;
  test.client().submit(request(1, prompt(3, 1), 60), sink);
  test.start(0);
  test.start(1);  // rank 2 never takes a step
  test.lose(2);
  test.join();
  for (int survivor = 0; survivor < 2; ++survivor) {
    ASSERT_FALSE(test.rank(survivor).result.has_value());
    EXPECT_EQ(test.rank(survivor).result.error().kind, ErrorKind::kPeerLost);
    EXPECT_EQ(test.rank(survivor).result.error().origin_rank, 2);
    EXPECT_EQ(test.rank(survivor).abort.reason(), test.rank(survivor).result.error());
  }
  EXPECT_EQ(sink.answer(RequestId(1)).error, test.rank(0).result.error());
}

TEST(Session, LosesTheCoordinatorAndEverySurvivorNamesRankZero) {
  TestSession test(3, Processes::kOnePerRank);
  test.start(1);
  test.start(2);
  test.lose(0);
  test.join();
  for (int survivor = 1; survivor < 3; ++survivor) {
    ASSERT_FALSE(test.rank(survivor).result.has_value());
    EXPECT_EQ(test.rank(survivor).result.error().origin_rank, 0);
  }
}

TEST(Session, WaitsAtItsEndForARankThatIsLate) {
  TestSession test(2, Processes::kOnePerRank, {}, {.leave_deadline = std::chrono::milliseconds(10)});
  test.client().finish();
  test.start(0);
  std::promise<void> never;
  EXPECT_EQ(never.get_future().wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  test.start(1);  // without a core until now
  test.join();
  EXPECT_TRUE(test.rank(0).result.has_value()) << test.rank(0).result.error().message;
  EXPECT_TRUE(test.rank(1).result.has_value()) << test.rank(1).result.error().message;
}

TEST(Session, DoesNotNoticeALostRankWithDetectionOff) {
  TestSession test(2, Processes::kOnePerRank, {}, {.detection = PeerDetection::kOff});
  CollectingSink sink;
  test.client().submit(request(1, prompt(3, 1), 60), sink);
  test.start(0);
  test.lose(1);
  EXPECT_FALSE(test.rank(0).abort.is_raised());
  test.client().cancel();
  test.join();
  EXPECT_EQ(test.rank(0).result.error().kind, ErrorKind::kCancelled);
}

TEST(Session, EndsARequestThatCannotBeAnsweredAndGoesOnWithTheOthers) {
  TestSession test(2, Processes::kOne, {.capacity = 16});
  CollectingSink sink;
  const Request fits = request(2, prompt(4, 2), 5);
  test.client().submit(request(1, prompt(14, 1), 9), sink);
  test.client().submit(fits, sink);
  test.client().finish();
  test.client().submit(request(3, prompt(1, 1), 1), sink);  // too late
  test.start();
  test.join();
  EXPECT_EQ(sink.answer(RequestId(1)).error->kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(sink.answer(RequestId(3)).error->kind, ErrorKind::kFailedPrecondition);
  EXPECT_EQ(sink.answer(fits.id).tokens, expected_answer(fits.ids, fits.parameters));
  EXPECT_TRUE(test.rank(0).result.has_value());
}

TEST(Session, HandsLogitsToTheRequestThatWantsThem) {
  TestSession test(1, Processes::kOne, {.vocabulary = 3});
  CollectingSink sink;
  Request wants = request(1, prompt(4, 2), 5);
  wants.logits = Logits::kWanted;
  test.client().submit(wants, sink);
  test.client().finish();
  test.start();
  test.join();
  const Answer answer = sink.answer(wants.id);
  ASSERT_EQ(answer.tokens.size(), 5u);
  std::vector<int32_t> seen = wants.ids;
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(answer.logits[i], expected_logits(seen, 3));
    seen.push_back(answer.tokens[i]);
  }
}

TEST(Session, EndsOpenRequestsWhenItIsDestroyed) {
  CollectingSink sink;
  AbortFlag abort;
  {
    const auto session = Session::host({.size = 1, .ranks = {{RankId(0), &abort}}}).value();
    session->submit(request(1, {5}, 3), sink);
  }
  EXPECT_EQ(sink.answer(RequestId(1)).finishes, 1);
  EXPECT_EQ(sink.answer(RequestId(1)).reason, generation::FinishReason::kCancelled);
}

TEST(Session, SaysThatNobodyListens) {
  AbortFlag abort;
  uint16_t free_port = 0;
  {
    const auto host = Session::host({.size = 2, .ranks = {{RankId(0), &abort}}, .secret = kSecret}).value();
    free_port = host->address().port;
  }
  const auto joined =
      Session::join({.size = 2, .ranks = {{RankId(1), &abort}}, .secret = kSecret}, {"127.0.0.1", free_port});
  ASSERT_FALSE(joined.has_value());
  EXPECT_EQ(joined.error().kind, ErrorKind::kUnavailable);
}

TEST(Session, TakesNoRankWithAnotherSecret) {
  AbortFlag abort;
  std::promise<std::string> refused;
  SessionOptions options{.size = 2, .ranks = {{RankId(0), &abort}}, .secret = kSecret};
  options.on_refused = [&](const std::string& line) { refused.set_value(line); };
  const auto host = Session::host(options).value();
  options = {.size = 2, .ranks = {{RankId(1), &abort}}, .secret = std::string(64, 'x')};
  const auto joined = Session::join(options, host->address());
  ASSERT_FALSE(joined.has_value());
  EXPECT_EQ(joined.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(refused.get_future().get(), HasSubstr("refused a connection from 127.0.0.1:"));
}

TEST(Session, RefusesOptionsThatMakeNoSense) {
  AbortFlag abort;
  const auto kind = [](const SessionOptions& options) { return Session::host(options).error().kind; };
  EXPECT_EQ(kind({.size = 1}), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind({.size = 2, .ranks = {{RankId(1), &abort}}}), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind({.size = 1, .ranks = {{RankId(0), nullptr}}}), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind({.size = 2, .ranks = {{RankId(0), &abort}}, .secret = "short"}), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind({.size = 1, .ranks = {{RankId(0), &abort}}, .in_flight = 0}), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind({.size = 1, .ranks = {{RankId(0), &abort}}, .chunk_budget = -std::chrono::seconds(1)}),
            ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind({.size = 1, .ranks = {{RankId(0), &abort}}, .hand_on_period = -std::chrono::seconds(1)}),
            ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::actors
