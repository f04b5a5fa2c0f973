#include "launcher/serve/engine/lasting_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/serve/api/fake_engine.h"

namespace lockstep::serve {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Ids = std::vector<int32_t>;

const Error kLost{ErrorKind::kPeerLost, "rank 1 was killed"};

/// What a client sees.
struct Heard final : EngineSink {
  std::string text;
  Ids ids;
  std::vector<EngineAnswer> answers;
  std::vector<Error> errors;

  void on_tokens(std::vector<EngineToken> tokens) override {
    for (const EngineToken& token : tokens) {
      text += token.text;
      if (token.id >= 0) ids.push_back(token.id);
    }
  }
  void on_done(std::vector<EngineAnswer> done) override { answers = std::move(done); }
  void on_failed(const Error& error) override { errors.push_back(error); }
};

class LastingEngineTest : public ::testing::Test {
 protected:
  /// The next engine of a replica; the lasting one owns it.
  FakeEngine* attach(size_t replica = 0) {
    auto engine = std::make_unique<FakeEngine>();
    FakeEngine* const attached = engine.get();
    EXPECT_TRUE(engine_.attach(std::move(engine), replica).has_value());
    return attached;
  }

  ManualClock clock_;
  LastingEngine engine_{clock_};
  std::shared_ptr<Heard> heard_ = std::make_shared<Heard>();
};

TEST_F(LastingEngineTest, GoesOnWithAnotherEngineAfterTheTokensThatItHas) {
  FakeEngine* engine = attach();
  const auto call = engine_.open({.ids = {1, 2}, .random_row = 7}, heard_);
  engine->calls[0]->say("ab");
  engine_.detach();
  EXPECT_FALSE(engine_.is_attached(0));
  engine = attach();
  ASSERT_EQ(engine->calls.size(), 1u);
  const EngineRequest& again = engine->calls[0]->request;
  EXPECT_EQ(again.ids, (Ids{1, 2}));
  EXPECT_EQ(again.random_row, 7u);
  EXPECT_THAT(again.delivered, ElementsAre(Ids{'a', 'b'}));
  engine->calls[0]->say("c");
  engine->calls[0]->finish("length");
  EXPECT_EQ(heard_->text, "abc");
  EXPECT_EQ(heard_->answers.at(0).reason, "length");
  EXPECT_THAT(heard_->errors, IsEmpty());
  EXPECT_EQ(engine_.tokens(0), 3u);
}

TEST_F(LastingEngineTest, HearsNothingMoreFromAnEngineThatIsLost) {
  FakeEngine* engine = attach();
  const auto call = engine_.open({.ids = {1}}, heard_);
  const std::shared_ptr<FakeCall> old = engine->calls[0];
  engine_.detach();
  engine = attach();
  old->is_dropped = false;  // an event that was on its way
  old->say("x");
  old->fail(kLost);
  engine->calls[0]->say("a");
  EXPECT_EQ(heard_->text, "a");
  EXPECT_THAT(heard_->errors, IsEmpty());
}

TEST_F(LastingEngineTest, KeepsARequestWhoseEngineSaysItself) {
  FakeEngine* engine = attach();
  const auto call = engine_.open({.ids = {1}}, heard_);
  engine->calls[0]->fail(kLost);  // before the connection ends
  engine = attach();
  EXPECT_EQ(engine->calls.size(), 1u);
  EXPECT_THAT(heard_->errors, IsEmpty());
}

TEST_F(LastingEngineTest, PassesOtherFailuresOn) {
  FakeEngine* engine = attach();
  const auto call = engine_.open({.ids = {1}}, heard_);
  engine->calls[0]->fail({ErrorKind::kInvalidArgument, "no"});
  EXPECT_EQ(heard_->errors.at(0).message, "no");
  EXPECT_THAT(attach()->calls, IsEmpty());
}

TEST_F(LastingEngineTest, SendsRequestsOfThePauseInTheOrderOfTheirArrival) {
  attach();
  const auto first = engine_.open({.ids = {1}}, heard_);
  engine_.detach();
  const auto second = engine_.open({.ids = {2}}, heard_), third = engine_.open({.ids = {3}}, heard_);
  auto gone = engine_.open({.ids = {4}}, heard_);
  gone.reset();
  const auto& calls = attach()->calls;
  ASSERT_EQ(calls.size(), 3u);
  for (int32_t i = 0; i < 3; ++i) EXPECT_THAT(calls[static_cast<size_t>(i)]->request.ids, ElementsAre(i + 1));
}

TEST_F(LastingEngineTest, ARestOfTextThatComesAgainIsDropped) {
  FakeEngine* engine = attach();
  const auto call = engine_.open({.ids = {1}}, heard_);
  engine->calls[0]->say("ab");
  engine->calls[0]->say_token(-1, "<");
  engine = attach();
  engine->calls[0]->say_token(-1, "<");
  engine->calls[0]->finish("length");
  EXPECT_EQ(heard_->text, "ab<");
}

TEST_F(LastingEngineTest, ADeadlineIsNotExtendedByAPause) {
  attach();
  const auto call = engine_.open({.ids = {1}, .deadline_s = 10.0}, heard_);
  clock_.advance(4s);
  EXPECT_DOUBLE_EQ(attach()->calls[0]->request.deadline_s.value(), 6.0);
  clock_.advance(60s);
  EXPECT_DOUBLE_EQ(attach()->calls[0]->request.deadline_s.value(), 0.0);
}

TEST_F(LastingEngineTest, ASlowReaderStaysPausedAndACancelledRequestCancelled) {
  attach();
  const auto slow = engine_.open({.ids = {1}}, heard_), cancelled = engine_.open({.ids = {2}}, heard_);
  slow->pause();
  engine_.detach();
  cancelled->cancel();
  const auto& calls = attach()->calls;
  EXPECT_TRUE(calls[0]->is_paused);
  EXPECT_TRUE(calls[1]->is_dropped);
}

TEST_F(LastingEngineTest, ATextIsScoredByTheNextEngine) {
  FakeEngine* engine = attach();
  size_t scored = 0;
  const auto text = engine_.score(
      {1, 2, 3}, 0, [&](const Result<std::vector<EngineScore>>& scores) { scored += scores.value().size(); });
  const LastingEngine::OnScores old = engine->scores[0]->done;
  old(kLost);
  engine = attach();
  ASSERT_EQ(engine->scores.size(), 1u);
  old(kLost);  // late
  engine->give_score(0);
  EXPECT_EQ(scored, 3u);
  EXPECT_THAT(attach()->scores, IsEmpty());
}

TEST_F(LastingEngineTest, ATextThatItsCallerHasDroppedIsScoredNoMore) {
  FakeEngine* engine = attach();
  int answers = 0;
  const auto count = [&](const Result<std::vector<EngineScore>>&) { ++answers; };
  auto running = engine_.score({1, 2}, 0, count);
  EXPECT_FALSE(engine->scores.at(0)->is_dropped);
  running.reset();
  EXPECT_TRUE(engine->scores[0]->is_dropped);
  engine->scores[0]->done(std::vector<EngineScore>{});  // an answer that was on its way
  engine_.detach();
  auto waiting = engine_.score({3}, 0, count);
  const auto kept = engine_.score({4}, 0, count);
  waiting.reset();
  engine = attach();
  ASSERT_EQ(engine->scores.size(), 1u);
  EXPECT_THAT(engine->scores[0]->ids, ElementsAre(4));
  EXPECT_EQ(answers, 0);
  engine->give_score(0);
  EXPECT_EQ(answers, 1);
}

TEST_F(LastingEngineTest, WithoutAnotherEngineEverythingFails) {
  attach();
  const auto call = engine_.open({.ids = {1}}, heard_);
  int failed = 0;
  const auto count = [&](const auto& result) { failed += result.has_value() ? 0 : 1; };
  const auto text = engine_.score({1, 2}, 0, count);
  engine_.fail(kLost);
  EXPECT_EQ(heard_->errors, std::vector<Error>{kLost});
  const auto late = engine_.open({.ids = {1}}, heard_);
  EXPECT_EQ(heard_->errors.size(), 2u);
  const auto late_text = engine_.score({1, 2}, 0, count);
  engine_.status(count);
  engine_.activity(count);
  EXPECT_EQ(failed, 4);
}

TEST_F(LastingEngineTest, AQuestionHasOneAnswerAlsoWhenTheEngineIsLostBefore) {
  FakeEngine* engine = attach();
  engine->answers = false;
  std::vector<bool> answered;
  const auto note = [&](const Result<EngineStatus>& status) { answered.push_back(status.has_value()); };
  engine_.status(note);
  engine_.status(note);
  engine->questions[0](EngineStatus{});
  const LastingEngine::OnStatus late = engine->questions[1];
  engine_.detach();
  EXPECT_THAT(answered, ElementsAre(true, false));
  late(EngineStatus{});
  EXPECT_EQ(answered.size(), 2u);
}

TEST_F(LastingEngineTest, AnotherReplicaGoesOnWithTheRequestsOfALostOne) {
  FakeEngine* const first = attach(0);
  FakeEngine* const second = attach(1);
  const auto one = engine_.open({.ids = {1}}, heard_), two = engine_.open({.ids = {2}}, heard_);
  ASSERT_EQ(first->calls.size(), 1u);  // shared out
  ASSERT_EQ(second->calls.size(), 1u);
  size_t scored = 0;
  const auto text = engine_.score(
      {1, 2, 3}, 0, [&](const Result<std::vector<EngineScore>>& scores) { scored += scores.value().size(); });
  first->calls[0]->say("ab");
  const auto lost = engine_.detach(0);
  ASSERT_EQ(second->calls.size(), 2u);
  EXPECT_THAT(second->calls[1]->request.delivered, ElementsAre(Ids{'a', 'b'}));
  second->calls[1]->say("c");
  EXPECT_EQ(heard_->text, "abc");
  ASSERT_EQ(second->scores.size(), 1u);
  second->give_score(0);
  EXPECT_EQ(scored, 3u);
  EXPECT_EQ(attach(0)->calls.size(), 0u);  // nothing waits
  EXPECT_EQ(engine_.tokens(0), 2u);
  EXPECT_EQ(engine_.tokens(1), 1u);
}

TEST_F(LastingEngineTest, OtherRanksOfAReplicaTakeOverItsRequestsAlone) {
  attach(0);
  FakeEngine* const second = attach(1);
  const auto one = engine_.open({.ids = {1}}, heard_), two = engine_.open({.ids = {2}}, heard_);
  const FakeEngine* const next = attach(0);
  EXPECT_EQ(second->calls.size(), 1u);
  ASSERT_EQ(next->calls.size(), 1u);
  EXPECT_THAT(next->calls[0]->request.ids, ElementsAre(1));
}

TEST_F(LastingEngineTest, LetsGoOfCallsThatHaveEndedBeforeTheirEngineGoes) {
  FakeEngine* const engine = attach();
  const auto call = engine_.open({.ids = {1}}, heard_);
  const std::shared_ptr<FakeCall> ended = engine->calls[0];
  ended->finish("length");
  EXPECT_FALSE(ended->is_dropped);
  attach();
  EXPECT_TRUE(ended->is_dropped);
}

TEST_F(LastingEngineTest, HasTheSlotsOfAllItsReplicas) {
  attach(0);
  attach(1);
  EXPECT_EQ(engine_.facts().slots, 4);
  engine_.detach(1);
  EXPECT_EQ(engine_.facts().slots, 2);
}

TEST_F(LastingEngineTest, AnswersForAllItsReplicas) {
  FakeEngine* const first = attach(0);
  FakeEngine* const second = attach(1);
  first->answers = second->answers = false;
  std::vector<Result<EngineStatus>> answered;
  engine_.status([&](const Result<EngineStatus>& status) { answered.push_back(status); });
  second->questions[0](EngineStatus{.running = 2, .ranks = {"ready"}});
  EXPECT_THAT(answered, IsEmpty());
  first->questions[0](EngineStatus{.running = 1, .ranks = {"lost"}});
  ASSERT_EQ(answered.size(), 1u);
  EXPECT_EQ(answered[0].value().running, 3);
  EXPECT_THAT(answered[0].value().ranks, ElementsAre("lost", "ready"));
  engine_.status([&](const Result<EngineStatus>& status) { answered.push_back(status); });
  engine_.detach(0);
  second->questions[1](EngineStatus{.running = 2});
  EXPECT_EQ(answered.at(1).value().running, 2);  // of those that have answered
}

TEST_F(LastingEngineTest, RefusesAnEngineOfAnotherModel) {
  attach();
  auto other = std::make_unique<FakeEngine>();
  other->known.identity = "other weights";
  EXPECT_EQ(engine_.attach(std::move(other)).error().kind, ErrorKind::kFailedPrecondition);
  auto larger = std::make_unique<FakeEngine>();
  larger->known.ranks = 3;
  EXPECT_TRUE(engine_.attach(std::move(larger)).has_value());
  EXPECT_EQ(engine_.facts().ranks, 3);
}

}  // namespace
}  // namespace lockstep::serve
