// Tests of the library through its public headers: ranks are threads, with a tiny model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

#include "lockstep/engine.h"
#include "tests/engine/engine_fixture.h"
#include "tests/runtime/generation/tiny_tokenizer.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;
using ::testing::SizeIs;

TEST_F(EngineTest, ReportsHowFarLoadingAndPromptsHaveCome) {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<Progress::Work, Progress> last;
  GroupOptions options;
  options.on_progress = [&](const Progress& progress) {
    std::lock_guard lock(mutex);
    last[progress.work] = progress;
    changed.notify_all();
  };
  const auto wait_for_end_of = [&](Progress::Work work) {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(20), [&] { return last[work].is_over(); }));
    return last[work].total;
  };
  const auto group = Group::threads(2, options).value();
  const auto engine = open(*group);
  const int64_t file = static_cast<int64_t>(std::filesystem::file_size(folder_.path() / "model.safetensors"));
  const int64_t loaded = wait_for_end_of(Progress::Work::kLoading);
  EXPECT_THAT(loaded, AllOf(Ge(file / 3), Le(file)));  // the half of a rank, and what both hold whole
  ids_of(*engine, request(prompt_));
  EXPECT_EQ(wait_for_end_of(Progress::Work::kPrefill), 5);
  EXPECT_TRUE(engine->close().has_value());
}

TEST_F(EngineTest, AnswersTheSameAtEveryDegreeAndChunk) {
  const std::vector<int32_t> expected = alone(request(prompt_));
  EXPECT_THAT(expected, SizeIs(6));
  for (const int64_t chunk : {1, 3, 256}) {
    const auto group = Group::threads(2).value();
    EngineOptions options = small();
    options.prefill_chunk = chunk;
    const auto engine = open(*group, options);
    EXPECT_THAT(engine->facts().memory, SizeIs(2));
    EXPECT_EQ(ids_of(*engine, request(prompt_)), expected);
    ASSERT_TRUE(engine->close().has_value());
    EXPECT_EQ(engine->facts().ranks, 2);
    EXPECT_THAT(engine->facts().graphs, SizeIs(2));
    EXPECT_THAT(engine->facts().graphs_after_start, SizeIs(0));
    EXPECT_THAT(engine->facts().memory, SizeIs(2));
    EXPECT_TRUE(group->leave().has_value());
  }
}

/// The ids and logits of a long prompt that arrives in the middle of an answer, and of that answer.
std::vector<Answer> answers_of_late_prompt(Engine& engine, Request running, Request late) {
  std::promise<void> has_begun;
  running.on_token = [&, begun = false](const Token&) mutable {
    if (!std::exchange(begun, true)) has_begun.set_value();
    return Verdict::kContinue;
  };
  RequestHandle first = engine.submit(std::move(running)).value();
  has_begun.get_future().wait();
  RequestHandle second = engine.submit(std::move(late)).value();
  std::vector<Answer> answers;
  for (RequestHandle* handle : {&first, &second}) answers.push_back(handle->wait().value().at(0));
  return answers;
}

TEST_F(EngineTest, AnswersTheSameToTheBitWithAnyChunkBudget) {
  std::vector<int32_t> long_prompt;
  for (int32_t i = 0; i < 55; ++i) long_prompt.push_back(3 + i * 7 % 29);
  std::vector<Answer> expected;
  std::vector<std::optional<float>> expected_scores;
  for (const std::optional<double> budget : {std::optional<double>(), {0.0}, {1e-6}, {1e6}}) {
    const auto group = Group::threads(2).value();
    EngineOptions options{.slots = 3, .capacity = 64, .prefill_chunk = 40, .chunk_budget_ms = budget, .threads = 1};
    options.scoring = Scoring::kOn;
    const auto engine = open(*group, options);
    const auto answers =
        answers_of_late_prompt(*engine, request(prompt_, {{"max_new_tokens", "50"}, {"output_logits", "true"}}),
                               request(long_prompt, {{"max_new_tokens", "8"}, {"output_logits", "true"}}));
    std::vector<std::optional<float>> scores;
    const auto scored = engine->score(long_prompt, 3);
    for (const TokenScore& score : scored.value()) scores.push_back(score.logprob);
    EXPECT_TRUE(engine->close().has_value());
    if (!budget) {
      expected = answers;
      expected_scores = scores;
    }
    for (size_t i = 0; i < answers.size(); ++i) {
      EXPECT_EQ(answers[i].ids, expected[i].ids);
      EXPECT_FALSE(answers[i].logits.empty());
      EXPECT_TRUE(answers[i].logits == expected[i].logits) << "budget " << budget.value_or(-1.0);
    }
    EXPECT_EQ(scores, expected_scores);
  }
}

TEST_F(EngineTest, GeneratesTextWithOverridesOfTheModelsOptions) {
  folder_.write("tokenizer.json", generation::kTinyTokenizer);
  const auto group = Group::threads(2).value();
  const auto engine = open(*group);
  std::string shown;
  const OnToken show = [&](const Token& token) {
    shown += token.text;
    return Verdict::kContinue;
  };
  // Ids that the tiny tokenizer has.
  const Overrides overrides = {{"max_new_tokens", "4"},
                               {"suppress_tokens",
                                "[11,12,13,14,15,16,17,18,19,20,21,22,23,"
                                "24,25,26,27,28,29,30,31]"}};
  const Answer answer = engine->generate("abc", overrides, show).value();
  EXPECT_EQ(answer.text, shown);
  EXPECT_THAT(answer.ids, Each(Le(10)));
  const auto wrong = engine->generate("abc", {{"max_new_tokens", "many"}});
  EXPECT_EQ(wrong.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_TRUE(engine->close().has_value());
}

TEST_F(EngineTest, RendersAConversationAndDecodesSpecialTokensOnRequest) {
  folder_.write("tokenizer.json", generation::kTinyTokenizer);
  folder_.write("chat_template.jinja", "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<end>");
  const Model tiny = model();
  EXPECT_EQ(tiny.render_chat({{.role = "c", .content = "ab"}}).value(), "<c>ab<end>");
  EXPECT_EQ(tiny.decode(std::vector{generation::kAb, generation::kEnd}).value(), "ab");
  EXPECT_EQ(tiny.decode(std::vector{generation::kAb, generation::kEnd}, text::SpecialPieces::kKeep).value(), "ab<end>");
}

TEST_F(EngineTest, LetsRequestsJoinWhileOthersRun) {
  const std::vector<int32_t> other = {7, 3};
  const std::vector<int32_t> expected = alone(request(prompt_, {{"max_new_tokens", "16"}}));
  const std::vector<int32_t> expected_other = alone(request(other));
  const auto group = Group::threads(2).value();
  const auto engine = open(*group);
  std::promise<void> has_begun;
  Request first = request(prompt_, {{"max_new_tokens", "16"}});
  first.on_token = [&, begun = false](const Token&) mutable {
    if (!std::exchange(begun, true)) has_begun.set_value();
    return Verdict::kContinue;
  };
  RequestHandle long_one = engine->submit(std::move(first)).value();
  has_begun.get_future().wait();
  EXPECT_EQ(ids_of(*engine, request(other)), expected_other);
  EXPECT_EQ(long_one.wait().value().at(0).ids, expected);
  const EngineCounters counters = engine->counters();
  EXPECT_EQ(counters.submitted, 2);
  EXPECT_EQ(counters.finished, 2);
  EXPECT_EQ(counters.running + counters.queued, 0);
  EXPECT_EQ(counters.prompt_tokens, 7);
  EXPECT_EQ(counters.new_tokens, 22);
  EXPECT_TRUE(engine->close().has_value());
}

TEST_F(EngineTest, StreamsEveryTokenInOrderWithItsTime) {
  const auto group = Group::threads(2).value();
  const auto engine = open(*group);
  std::vector<int32_t> streamed;
  std::vector<TimePoint> made;
  Request streaming = request(prompt_);
  streaming.on_token = [&](const Token& token) {
    streamed.push_back(token.id);
    made.push_back(token.made);
    return Verdict::kContinue;
  };
  const Answer answer = engine->submit(std::move(streaming)).value().wait().value().at(0);
  EXPECT_EQ(streamed, answer.ids);
  EXPECT_EQ(made, answer.times.made);
  EXPECT_TRUE(std::ranges::is_sorted(made));
  EXPECT_TRUE(engine->close().has_value());
}

/// Holds up the ranks until it is let go.
class Waits final : public LogitsProcessor {
 public:
  explicit Waits(std::shared_future<void> gate) : gate_(std::move(gate)) {}
  void process(std::span<const int32_t>, std::span<float>) const override { gate_.wait(); }

 private:
  std::shared_future<void> gate_;
};

TEST_F(EngineTest, EndsARequestThatItsCallerStopsOrCancels) {
  const auto group = Group::threads(2).value();
  const auto engine = open(*group);
  Request stopping = request(prompt_, {{"max_new_tokens", "18"}});
  stopping.on_token = [count = 0](const Token&) mutable { return ++count == 3 ? Verdict::kStop : Verdict::kContinue; };
  const Answer stopped = engine->submit(std::move(stopping)).value().wait().value().at(0);
  EXPECT_THAT(stopped.ids, SizeIs(3));
  EXPECT_EQ(stopped.reason, FinishReason::kStop);
  std::promise<void> gate;
  Request waiting = request(prompt_, {{"max_new_tokens", "18"}});
  waiting.processors = {std::make_shared<Waits>(gate.get_future().share())};
  RequestHandle cancelled = engine->submit(std::move(waiting)).value();
  cancelled.cancel();
  gate.set_value();
  EXPECT_EQ(cancelled.wait().value().at(0).reason, FinishReason::kCancelled);
  EXPECT_TRUE(cancelled.is_done());
  EXPECT_EQ(ids_of(*engine, request(prompt_)), alone(request(prompt_)));  // the slots are free again
  EXPECT_TRUE(engine->close().has_value());
}

TEST_F(EngineTest, RunsTwoModelsAtOnce) {
  const model::TinyModel other(model::kTinyLlama, "other");
  model::write_hashed_weights(other.path(), model::llama_tensors(), /*seed=*/4, {});
  const std::vector<int32_t> expected = alone(request(prompt_));
  const auto group = Group::threads(2).value();
  const auto first = open(*group);
  const auto second = Engine::open(*group, Model::open(other.path()).value(), small()).value();
  RequestHandle here = first->submit(request(prompt_)).value(), there = second->submit(request(prompt_)).value();
  EXPECT_EQ(here.wait().value().at(0).ids, expected);
  EXPECT_NE(there.wait().value().at(0).ids, expected);
  EXPECT_TRUE(first->close().has_value());
  EXPECT_TRUE(second->close().has_value());
  EXPECT_TRUE(group->leave().has_value());
}

/// Never lets an id be chosen.
class Forbids final : public LogitsProcessor {
 public:
  explicit Forbids(int32_t id) : id_(id) {}
  void process(std::span<const int32_t>, std::span<float> scores) const override {
    scores[static_cast<size_t>(id_)] = -INFINITY;
  }

 private:
  int32_t id_;
};

/// Ends a row at `length` ids.
class EndsAt final : public StoppingCriterion {
 public:
  explicit EndsAt(size_t length) : length_(length) {}
  bool is_met(std::span<const int32_t> ids, std::span<const float>) const override { return ids.size() >= length_; }
  FinishReason reason() const override { return FinishReason::kStop; }

 private:
  size_t length_;
};

/// Chooses the same id forever.
class Repeats final : public TokenChooser {
 public:
  explicit Repeats(std::vector<int32_t> prompt) : prompt_(std::move(prompt)) {}

  int64_t rows() const override { return 1; }
  std::vector<std::vector<int32_t>> prompts() const override { return {prompt_}; }
  generation::Choice choose(std::span<const float>) override {
    made_.push_back(4);
    return {.tokens = {4}, .sources = {0}, .finished = made_.size() == 5};
  }
  std::span<const int32_t> certain() const override { return std::span(made_).last(1); }
  std::vector<generation::Sequence> sequences() const override { return {{.ids = made_}}; }

 private:
  std::vector<int32_t> prompt_, made_;
};

TEST_F(EngineTest, RunsProcessorsCriteriaConstraintsAndChoosersOfTheCallers) {
  const auto group = Group::threads(2).value();
  const auto engine = open(*group);
  const std::vector<int32_t> plain = ids_of(*engine, request(prompt_));
  Request processed = request(prompt_);
  processed.processors = {std::make_shared<Forbids>(plain[0])};
  EXPECT_THAT(ids_of(*engine, processed), Not(Contains(plain[0])));
  Request ended = request(prompt_);
  ended.criteria = {std::make_shared<EndsAt>(prompt_.size() + 2)};
  EXPECT_THAT(ids_of(*engine, ended), ElementsAre(plain[0], plain[1]));
  Request constrained = request(prompt_);
  constrained.allowed_tokens = [](int64_t, std::span<const int32_t>) { return std::vector<int32_t>{6, 8}; };
  EXPECT_THAT(ids_of(*engine, constrained), Each(::testing::AnyOf(6, 8)));
  Request own = request({});
  own.chooser = std::make_shared<Repeats>(prompt_);
  EXPECT_THAT(ids_of(*engine, own), ElementsAre(4, 4, 4, 4, 4));
  EXPECT_TRUE(engine->close().has_value());
}

TEST_F(EngineTest, ReturnsTheBestBeams) {
  const auto group = Group::threads(2).value();
  EngineOptions options = small();
  options.slots = 3;
  const auto engine = open(*group, options);
  const auto answers =
      engine->submit(request(prompt_, {{"max_new_tokens", "5"}, {"num_beams", "3"}, {"num_return_sequences", "2"}}))
          .value()
          .wait()
          .value();
  ASSERT_THAT(answers, SizeIs(2));
  EXPECT_GE(answers[0].score, answers[1].score);
  EXPECT_TRUE(engine->close().has_value());
}

TEST_F(EngineTest, RefusesARequestThatNoSlotCanHoldAndServesOn) {
  const auto group = Group::threads(2).value();
  const auto engine = open(*group);
  const auto refused = engine->submit(request(prompt_, {{"max_new_tokens", "400"}}));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("--max-new-tokens 400"));
  std::vector<Request> all = {request(prompt_), request({99})};
  EXPECT_FALSE(engine->submit(std::move(all)).has_value());
  EXPECT_EQ(engine->counters().submitted, 0);  // all or none
  EXPECT_THAT(ids_of(*engine, request(prompt_)), SizeIs(6));
  EXPECT_TRUE(engine->close().has_value());
}

TEST_F(EngineTest, FailsToOpenWithTheReason) {
  const auto group = Group::threads(2).value();
  const auto opened = [&](const EngineOptions& options) { return Engine::open(*group, model(), options).error(); };
  EXPECT_THAT(opened({.backend = "abacus"}).message, HasSubstr("--backend: found abacus"));
  EXPECT_EQ(opened({.memory_budget = Bytes(1)}).kind, ErrorKind::kResourceExhausted);
  const double none = std::numeric_limits<double>::quiet_NaN(), endless = std::numeric_limits<double>::infinity();
  EXPECT_THAT(opened({.chunk_budget_ms = none}).message, HasSubstr("--chunk-budget-ms: found nan, expected 0 to"));
  EXPECT_THAT(opened({.check_weights_s = -endless}).message, HasSubstr("--check-weights-s: found -inf"));
  EXPECT_THAT(opened({.observe = {.metrics_interval_s = endless}}).message,
              HasSubstr("--metrics-interval-s: found inf, expected 0.1 to 86400 seconds"));
  EXPECT_EQ(Model::open("/nonexistent").error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(Group::threads(0).error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(group->failure(), std::nullopt);  // all ranks have the error, so the group continues
}

TEST_F(EngineTest, FailsToOpenDamagedFilesOnARankAloneToo) {
  const auto alone = Group::alone().value(), pair = Group::threads(2).value();
  const auto reopened = [&](Group& group) { return Engine::open(group, model(), small()); };
  const std::filesystem::path weights = folder_.path() / "model.safetensors";
  std::filesystem::resize_file(weights, std::filesystem::file_size(weights) - 100);
  EXPECT_EQ(reopened(*alone).error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(reopened(*pair).error().kind, ErrorKind::kInvalidArgument);
  std::filesystem::remove(weights);
  EXPECT_EQ(reopened(*pair).error().kind, ErrorKind::kNotFound);
}

TEST_F(EngineTest, HandlesOutliveAnEngineThatWasNotClosed) {
  const auto group = Group::threads(2).value();
  std::optional<RequestHandle> handle;
  {
    const auto engine = open(*group);
    handle = engine->submit(request(prompt_, {{"max_new_tokens", "18"}})).value();
  }
  const auto answers = handle->wait();
  EXPECT_TRUE(!answers.has_value() || answers.value().at(0).ids.size() == 18);
  if (!answers.has_value()) {
    EXPECT_EQ(answers.error().kind, ErrorKind::kCancelled);
  }
}

TEST_F(EngineTest, EndsOpenRequestsWhenTheGroupFails) {
  std::promise<Error> told;
  const auto group = Group::threads(2, {.on_failure = [&](const Error& error) { told.set_value(error); }}).value();
  const auto engine = open(*group);
  Request first = request(prompt_, {{"max_new_tokens", "18"}});
  first.on_token = [&, begun = false](const Token&) mutable {
    if (!std::exchange(begun, true)) group->fail({ErrorKind::kUnavailable, "[test] the building is on fire"});
    return Verdict::kContinue;
  };
  const auto answers = engine->submit(std::move(first)).value().wait();
  EXPECT_THAT(told.get_future().get().message, HasSubstr("on fire"));
  if (!answers.has_value()) {
    EXPECT_THAT(answers.error().message, HasSubstr("on fire"));
  }
  EXPECT_THAT(engine->close().error().message, HasSubstr("on fire"));
  EXPECT_EQ(group->failure()->kind, ErrorKind::kUnavailable);
}

}  // namespace
}  // namespace lockstep
