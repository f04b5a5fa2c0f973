// Requests that are suspended and continue at another degree. Every answer has the same bits as without the
// interruption.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "lockstep/engine.h"
#include "tests/model/gate.h"
#include "tests/model/golden.h"
#include "tests/model/request_kinds.h"

namespace lockstep::model {
namespace {

using ::testing::HasSubstr;

void expect_same(const std::vector<Answer>& found, const std::vector<Answer>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].ids, expected[i].ids);
    EXPECT_EQ(found[i].reason, expected[i].reason);
    EXPECT_EQ(found[i].score, expected[i].score);
    ASSERT_EQ(found[i].records.size(), expected[i].records.size());
    for (size_t t = 0; t < found[i].records.size(); ++t) {
      EXPECT_EQ(found[i].records[t]->logprob, expected[i].records[t]->logprob);
    }
  }
}

EngineOptions options_of(int64_t slots) {
  return {.slots = slots, .capacity = 100, .prefill_chunk = 16, .threads = 1, .on_loss = OnLoss::kSuspend};
}

class Suspended : public ::testing::TestWithParam<const char*> {
 protected:
  Model open() const { return Model::open(folder_.path(), {.dtype = DType::kFloat32}).value(); }

  /// The answers of an engine that nothing interrupts.
  std::vector<std::vector<Answer>> expected(const std::vector<Request>& requests, EngineOptions options) const {
    const auto group = Group::alone().value();
    const Model model = open();
    const auto engine = Engine::open(*group, model, options).value();
    std::vector<std::vector<Answer>> answers;
    std::vector<RequestHandle> handles = engine->submit(requests).value();
    for (RequestHandle& handle : handles) answers.push_back(handle.wait().value());
    EXPECT_TRUE(engine->close().has_value());
    return answers;
  }

  const Golden golden_ = read_golden(LOCKSTEP_GOLDENS_DIR, GetParam());
  const GoldenModel folder_{golden_, {}};
};

/// Submits, and waits until the first request has been given `tokens`.
std::vector<RequestHandle> submit_and_wait(Engine& engine, std::vector<Request> requests, int tokens) {
  auto reached = std::make_shared<std::promise<void>>();
  requests.front().on_token = [reached, left = tokens](const Token&) mutable {
    if (--left == 0) reached->set_value();
    return Verdict::kContinue;
  };
  std::vector<RequestHandle> handles = engine.submit(std::move(requests)).value();
  reached->get_future().wait();
  return handles;
}

TEST_P(Suspended, GoOnAtAnotherDegreeAfterALoss) {
  const Model model = open();
  const std::vector<Request> requests = requests_of(golden_, model, /*with_code=*/true);
  const auto expected_answers = expected(requests, options_of(6));
  auto group = Group::threads(2).value();
  const auto engine = Engine::open(*group, model, options_of(6)).value();
  std::vector<RequestHandle> handles = submit_and_wait(*engine, requests, 3);
  // Lost twice, each time with more tokens.
  int interruptions = 0;
  const Error lost{ErrorKind::kPeerLost, "[test] rank 1 was lost", 1};
  for (const int ranks : {3, 1}) {
    group->fail(lost);
    for (RequestHandle& handle : handles) {
      const auto waited = handle.wait();
      EXPECT_TRUE(waited.has_value() || waited.error().kind == ErrorKind::kPeerLost);
    }
    interruptions += engine->is_suspended() ? 1 : 0;
    auto next = Group::threads(ranks).value();
    const Result<void> resumed = engine->resume(*next);
    ASSERT_TRUE(resumed.has_value()) << resumed.error().message;
    group = std::move(next);  // destroys the old one
  }
  for (size_t i = 0; i < handles.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "request " << i);
    const auto answers = handles[i].wait();
    ASSERT_TRUE(answers.has_value()) << answers.error().message;
    expect_same(answers.value(), expected_answers[i]);
  }
  EXPECT_GE(interruptions, 1);
  EXPECT_FALSE(engine->is_suspended());
  EXPECT_TRUE(engine->close().has_value());
  EXPECT_EQ(engine->counters().finished, static_cast<int64_t>(requests.size()));
  EXPECT_EQ(engine->counters().running + engine->counters().queued, 0);
}

TEST_P(Suspended, AreTextThatAnotherEngineRestores) {
  const Model model = open();
  const std::vector<Request> requests = requests_of(golden_, model, /*with_code=*/false);
  const auto expected_answers = expected(requests, options_of(6));
  std::string text;
  std::vector<size_t> open;  // requests
  {
    const auto group = Group::threads(2).value();
    const auto engine = Engine::open(*group, model, options_of(6)).value();
    const std::vector<RequestHandle> handles = submit_and_wait(*engine, requests, 4);
    ASSERT_TRUE(engine->suspend().has_value());
    EXPECT_FALSE(group->failure().has_value());
    EXPECT_TRUE(engine->is_suspended());
    EXPECT_EQ(engine->submit(requests.front()).error().kind, ErrorKind::kUnavailable);
    text = engine->suspended().value();
    for (size_t i = 0; i < handles.size(); ++i) {
      if (!handles[i].is_done()) open.push_back(i);
    }
    EXPECT_TRUE(group->leave().has_value());
  }
  const auto group = Group::threads(3).value();
  const auto engine = Engine::open(*group, model, options_of(4)).value();
  std::vector<RequestHandle> handles = engine->restore(text).value();
  ASSERT_EQ(handles.size(), open.size());
  ASSERT_GT(open.size(), 0u);
  for (size_t i = 0; i < open.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "request " << open[i]);
    const auto answers = handles[i].wait();
    ASSERT_TRUE(answers.has_value()) << answers.error().message;
    expect_same(answers.value(), expected_answers[open[i]]);
  }
  EXPECT_TRUE(engine->close().has_value());
}

TEST_P(Suspended, GoOnWhereTokensAreDrafted) {
  const Model model = open();
  std::vector<Request> requests = requests_of(golden_, model, /*with_code=*/false);
  requests.erase(requests.begin() + 2, requests.begin() + 5);  // those chosen by the host
  const auto expected_answers = expected(requests, options_of(4));
  EngineOptions options = options_of(2);
  options.drafting = {.tokens = 2, .model = std::nullopt, .lookup_ngram = 2};
  const auto group = Group::threads(2).value();
  const auto engine = Engine::open(*group, model, options).value();
  std::vector<RequestHandle> handles = submit_and_wait(*engine, requests, 3);
  ASSERT_TRUE(engine->suspend().has_value());
  ASSERT_TRUE(engine->resume(*group).has_value());  // the same group
  for (size_t i = 0; i < handles.size(); ++i) expect_same(handles[i].wait().value(), expected_answers[i]);
  EXPECT_TRUE(engine->close().has_value());
}

INSTANTIATE_TEST_SUITE_P(Families, Suspended,
                         ::testing::Values("llama_nine_heads_llama3_tied", "phi3_longrope",
                                           "gemma2_alternating_windows"),
                         [](const auto& tested) { return std::string(tested.param); });

/// Submits, and suspends the engine while the first request is open.
std::vector<RequestHandle> submit_and_suspend(Engine& engine, std::vector<Request> requests) {
  const auto gate = std::make_shared<Gate>(requests.front().prompt.ids.size() + 10);
  requests.front().processors = {gate};
  std::vector<RequestHandle> handles = submit_and_wait(engine, std::move(requests), 2);
  gate->open();
  EXPECT_TRUE(engine.suspend().has_value());
  return handles;
}

class SuspendedEngine : public ::testing::Test {
 protected:
  const Golden golden_ = read_golden(LOCKSTEP_GOLDENS_DIR, "llama_grouped");
  const GoldenModel folder_{golden_, {}};
  const Model model_ = Model::open(folder_.path(), {.dtype = DType::kFloat32}).value();
};

TEST_F(SuspendedEngine, NeedsNoGroupWhileItIsSuspendedAndOnceItIsClosed) {
  const auto requests = requests_of(golden_, model_, /*with_code=*/false);
  auto group = Group::threads(2).value();
  const auto engine = Engine::open(*group, model_, options_of(6)).value();
  std::vector<RequestHandle> handles = submit_and_suspend(*engine, requests);
  group.reset();
  EXPECT_TRUE(engine->is_suspended());
  for (RequestHandle& handle : handles) {
    const auto waited = handle.wait();
    EXPECT_TRUE(waited.has_value() || waited.error().kind == ErrorKind::kUnavailable);
  }
  group = Group::threads(3).value();
  ASSERT_TRUE(engine->resume(*group).has_value());
  for (RequestHandle& handle : handles) EXPECT_TRUE(handle.wait().has_value());
  ASSERT_TRUE(engine->close().has_value());
  group.reset();
  EXPECT_EQ(engine->submit(requests.front()).error().kind, ErrorKind::kUnavailable);
}

TEST_F(SuspendedEngine, RefusesWhatCannotBeRestored) {
  const auto group = Group::alone().value();
  const auto engine = Engine::open(*group, model_, options_of(6)).value();
  EXPECT_EQ(engine->restore("nothing").error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(engine->restore("{}").error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(engine->resume(*group).error().kind, ErrorKind::kFailedPrecondition);
  submit_and_suspend(*engine, {requests_of(golden_, model_, /*with_code=*/false).front()});
  EXPECT_EQ(engine->suspended().error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(engine->suspended().error().message, HasSubstr("processors"));
}

TEST_F(SuspendedEngine, IsForTheModelThatItsRequestsBeganWith) {
  std::string text;
  {
    const auto group = Group::alone().value();
    const auto engine = Engine::open(*group, model_, options_of(6)).value();
    const auto handles = submit_and_wait(*engine, requests_of(golden_, model_, /*with_code=*/false), 2);
    ASSERT_TRUE(engine->suspend().has_value());
    text = engine->suspended().value();
  }
  const Golden other = read_golden(LOCKSTEP_GOLDENS_DIR, "gptj_default");
  const GoldenModel folder(other, {});
  const Model model = Model::open(folder.path(), {.dtype = DType::kFloat32}).value();
  const auto group = Group::alone().value();
  const auto engine = Engine::open(*group, model, options_of(6)).value();
  EXPECT_EQ(engine->restore(text).error().kind, ErrorKind::kFailedPrecondition);
  EXPECT_TRUE(engine->close().has_value());
}

TEST_F(SuspendedEngine, EndsItsRequestsWhenItIsGone) {
  std::vector<RequestHandle> handles;
  {
    const auto group = Group::alone().value();
    const auto engine = Engine::open(*group, model_, options_of(6)).value();
    handles = submit_and_wait(*engine, requests_of(golden_, model_, /*with_code=*/false), 2);
    ASSERT_TRUE(engine->suspend().has_value());
    EXPECT_EQ(handles.front().wait().error().kind, ErrorKind::kUnavailable);
    EXPECT_FALSE(handles.front().is_done());
  }
  EXPECT_TRUE(handles.front().is_done());
  EXPECT_EQ(handles.front().wait().error().kind, ErrorKind::kCancelled);
}

TEST_F(SuspendedEngine, FailsItsRequestsWithoutThatOption) {
  const auto group = Group::threads(2).value();
  EngineOptions options = options_of(6);
  options.on_loss = OnLoss::kFail;
  const auto engine = Engine::open(*group, model_, options).value();
  std::vector<RequestHandle> handles = submit_and_wait(*engine, requests_of(golden_, model_, /*with_code=*/false), 2);
  group->fail({ErrorKind::kPeerLost, "[test] rank 1 was lost", 1});
  EXPECT_EQ(handles.front().wait().error().kind, ErrorKind::kPeerLost);
  EXPECT_TRUE(handles.front().is_done());
  EXPECT_FALSE(engine->is_suspended());
}

}  // namespace
}  // namespace lockstep::model
