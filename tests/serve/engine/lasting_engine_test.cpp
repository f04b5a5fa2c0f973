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
  /// The next engine; the lasting one owns it.
  FakeEngine* attach() {
    auto engine = std::make_unique<FakeEngine>();
    FakeEngine* const attached = engine.get();
    EXPECT_TRUE(engine_.attach(std::move(engine)).has_value());
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
  EXPECT_FALSE(engine_.is_attached());
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
  EXPECT_EQ(engine_.tokens(), 3u);
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
  engine_.score({1, 2, 3}, 0, [&](const Result<std::vector<EngineScore>>& scores) { scored += scores.value().size(); });
  const LastingEngine::OnScores old = engine->scores[0].second;
  old(kLost);
  engine = attach();
  ASSERT_EQ(engine->scores.size(), 1u);
  old(kLost);  // late
  engine->give_score(0);
  EXPECT_EQ(scored, 3u);
  EXPECT_THAT(attach()->scores, IsEmpty());
}

TEST_F(LastingEngineTest, WithoutAnotherEngineEverythingFails) {
  attach();
  const auto call = engine_.open({.ids = {1}}, heard_);
  int failed = 0;
  const auto count = [&](const auto& result) { failed += result.has_value() ? 0 : 1; };
  engine_.score({1, 2}, 0, count);
  engine_.fail(kLost);
  EXPECT_EQ(heard_->errors, std::vector<Error>{kLost});
  const auto late = engine_.open({.ids = {1}}, heard_);
  EXPECT_EQ(heard_->errors.size(), 2u);
  engine_.score({1, 2}, 0, count);
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

TEST_F(LastingEngineTest, RefusesAnEngineOfAnotherModel) {
  attach();
  auto other = std::make_unique<FakeEngine>();
  other->known.vocabulary = 1000;
  EXPECT_EQ(engine_.attach(std::move(other)).error().kind, ErrorKind::kFailedPrecondition);
  auto larger = std::make_unique<FakeEngine>();
  larger->known.ranks = 3;
  EXPECT_TRUE(engine_.attach(std::move(larger)).has_value());
  EXPECT_EQ(engine_.facts().ranks, 3);
}

}  // namespace
}  // namespace lockstep::serve
