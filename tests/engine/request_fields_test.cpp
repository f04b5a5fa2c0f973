// Fields of requests and answers that servers need: the model's own log-probabilities, deadlines, reused tokens, and
// what an engine does meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "tests/engine/engine_fixture.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

/// A processor that reports its first call and blocks until the gate is open.
class Blocks final : public LogitsProcessor {
 public:
  void process(std::span<const int32_t>, std::span<float>) const override {
    if (!std::exchange(has_entered_, true)) entered_.set_value();
    gate_.wait();
  }

  void wait_until_entered() { EXPECT_EQ(entered_.get_future().wait_for(kPatience), std::future_status::ready); }
  void open() { opening_.set_value(); }

 private:
  static constexpr std::chrono::seconds kPatience{20};
  mutable std::promise<void> entered_;
  mutable bool has_entered_ = false;
  std::promise<void> opening_;
  std::shared_future<void> gate_ = opening_.get_future().share();
};

class RequestFields : public EngineTest {
 protected:
  static EngineOptions scoring(int64_t chunk = 256) {
    EngineOptions options = small();
    options.capacity = 60;
    options.prefill_chunk = chunk;
    options.scoring = Scoring::kOn;
    options.scored_top = 5;
    return options;
  }

  /// A request that occupies a slot until `blocks` opens. With many tokens no schedule that is planned ahead ends it.
  Request blocked(const std::shared_ptr<Blocks>& blocks, const char* new_tokens = "4") const {
    Request waiting = request(prompt_, {{"max_new_tokens", new_tokens}});
    waiting.processors = {blocks};
    return waiting;
  }
};

TEST_F(RequestFields, GiveEachAnswerTheRandomNumbersOfTheNextRow) {
  const auto group = Group::alone().value();
  const auto engine = open(*group);
  Overrides sampled = {{"max_new_tokens", "6"}, {"do_sample", "true"}, {"temperature", "9.0"}, {"seed", "4"}};
  const auto answers_at = [&](uint64_t row) {
    Request asked = request(prompt_, sampled);
    asked.random_row = row;
    return engine->submit(std::move(asked)).value().wait().value();
  };
  const std::vector<int32_t> next = answers_at(6).at(0).ids;
  EXPECT_NE(answers_at(5).at(0).ids, next);
  sampled.push_back({"num_return_sequences", "2"});
  EXPECT_EQ(answers_at(5).at(1).ids, next);
  EXPECT_TRUE(engine->close().has_value());
}

TEST_F(RequestFields, RecordTheModelsOwnLogProbabilitiesWithTheBitsOfAScore) {
  const std::vector<Overrides> ways = {
      {{"max_new_tokens", "7"}},
      {{"max_new_tokens", "7"}, {"do_sample", "true"}, {"temperature", "3.0"}, {"top_k", "9"}, {"seed", "4"}},
      {{"max_new_tokens", "7"}, {"do_sample", "true"}, {"repetition_penalty", "1.9"}, {"num_return_sequences", "2"}},
      {{"max_new_tokens", "7"}, {"no_repeat_ngram_size", "1"}, {"suppress_tokens", "[3, 4, 5]"}},
      {{"max_new_tokens", "7"}, {"top_logprobs", "2"}, {"temperature", "2.0"}, {"do_sample", "true"}},
      {{"max_new_tokens", "7"}, {"guidance_scale", "1.5"}},
      {{"max_new_tokens", "7"}, {"num_beams", "2"}, {"num_return_sequences", "2"}}};
  for (const auto& [ranks, chunk] : {std::pair{1, int64_t{256}}, {2, int64_t{2}}}) {
    const auto group = Group::threads(ranks).value();
    const auto engine = open(*group, scoring(chunk));
    for (size_t way = 0; way < ways.size(); ++way) {
      SCOPED_TRACE(::testing::Message() << ranks << " ranks, way " << way);
      Request asked = request(prompt_, ways[way]);
      asked.model_logprobs = 5;
      const std::vector<Answer> answers = engine->submit(std::move(asked)).value().wait().value();
      for (const Answer& answer : answers) {
        std::vector<int32_t> text = prompt_;
        text.insert(text.end(), answer.ids.begin(), answer.ids.end());
        const auto scores = engine->score(text, 5).value();
        ASSERT_THAT(answer.records, SizeIs(answer.ids.size()));
        for (size_t i = 0; i < answer.ids.size(); ++i) {
          const TokenScore& score = scores[prompt_.size() + i];
          EXPECT_EQ(answer.records[i]->model_logprob, score.logprob) << "token " << i;
          EXPECT_EQ(answer.records[i]->model_top, score.top) << "token " << i;
        }
      }
    }
    EXPECT_TRUE(engine->close().has_value());
  }
}

TEST_F(RequestFields, StreamTheSameRecords) {
  const auto group = Group::alone().value();
  const auto engine = open(*group, scoring());
  for (const char* beams : {"1", "2"}) {
    Request asked = request(prompt_, {{"max_new_tokens", "6"}, {"num_beams", beams}});
    asked.model_logprobs = 0;
    std::vector<float> streamed;
    asked.on_token = [&](const Token& token) {
      streamed.push_back(token.record->model_logprob.value());
      EXPECT_TRUE(token.record->model_top.empty());
      return Verdict::kContinue;
    };
    const Answer answer = engine->submit(std::move(asked)).value().wait().value().at(0);
    ASSERT_THAT(streamed, SizeIs(6));
    for (size_t i = 0; i < streamed.size(); ++i) EXPECT_EQ(answer.records[i]->model_logprob, streamed[i]);
  }
  EXPECT_TRUE(engine->close().has_value());
}

TEST_F(RequestFields, RefuseLogProbabilitiesThatAnEngineDoesNotHave) {
  const auto group = Group::alone().value();
  {
    const auto engine = open(*group);
    Request asked = request(prompt_);
    asked.model_logprobs = 33;
    EXPECT_THAT(engine->submit(asked).error().message, HasSubstr("found 33, expected -1 to 32"));
    asked.model_logprobs = -2;
    EXPECT_EQ(engine->submit(asked).error().kind, ErrorKind::kInvalidArgument);
    EXPECT_TRUE(engine->close().has_value());
  }
  EngineOptions options = small();
  options.choosers = Choosers::kNone;
  const auto engine = open(*group, options);
  Request asked = request(prompt_);
  asked.model_logprobs = 0;
  const auto refused = engine->submit(asked);
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("model_logprobs"));
  EXPECT_TRUE(engine->close().has_value());
}

TEST_F(RequestFields, EndARequestAtItsDeadlineAndNoOther) {
  const auto group = Group::threads(2).value();
  const auto engine = open(*group);
  Request late = request(prompt_, {{"max_new_tokens", "18"}, {"do_sample", "true"}, {"num_return_sequences", "2"}});
  late.deadline = Duration::zero();
  RequestHandle other = engine->submit(request(prompt_)).value();
  const auto ended = engine->submit(std::move(late)).value().wait();
  ASSERT_FALSE(ended.has_value());
  EXPECT_EQ(ended.error().kind, ErrorKind::kDeadlineExceeded);
  EXPECT_EQ(other.wait().value().at(0).ids, alone(request(prompt_)));
  Request timely = request(prompt_);
  timely.deadline = std::chrono::hours(1);
  EXPECT_EQ(ids_of(*engine, std::move(timely)), alone(request(prompt_)));
  EXPECT_TRUE(engine->close().has_value());
}

TEST_F(RequestFields, TellHowManyTokensASlotHeld) {
  const auto group = Group::threads(2).value();
  const auto engine = open(*group, scoring());
  std::vector<int32_t> talk;
  for (int32_t i = 0; i < 20; ++i) talk.push_back(3 + i % 11);
  const Answer first = engine->submit(request(talk)).value().wait().value().at(0);
  EXPECT_EQ(first.cached_tokens, 0);
  talk.insert(talk.end(), first.ids.begin(), first.ids.end());
  talk.push_back(9);
  const Answer second = engine->submit(request(talk)).value().wait().value().at(0);
  EXPECT_EQ(second.cached_tokens, 20 + 5);  // the whole first turn; its last token is in no cache
  EXPECT_EQ(engine->counters().reused_tokens, 25);
  EXPECT_TRUE(engine->close().has_value());
  EXPECT_EQ(second.ids, [&] {
    const auto fresh_group = Group::alone().value();
    const auto fresh = open(*fresh_group, scoring());
    std::vector<int32_t> ids = ids_of(*fresh, request(talk));
    EXPECT_TRUE(fresh->close().has_value());
    return ids;
  }());
}

TEST_F(RequestFields, ShowWhatAnEngineDoesNow) {
  const auto group = Group::threads(2).value();
  const auto engine = open(*group);
  const auto blocks = std::make_shared<Blocks>();
  RequestHandle handle = engine->submit(blocked(blocks)).value();
  blocks->wait_until_entered();
  const trace::Activity during = engine->activity();
  blocks->open();
  ASSERT_THAT(during.slots, SizeIs(2));
  EXPECT_EQ(during.slots[0].use, trace::SlotUse::kDecode);
  EXPECT_EQ(during.slots[0].request.value, handle.number());
  EXPECT_EQ(during.slots[0].tokens, 5);
  EXPECT_EQ(during.slots[1].use, trace::SlotUse::kFree);
  EXPECT_THAT(handle.wait().value().at(0).ids, SizeIs(4));
  EXPECT_EQ(ids_of(*engine, request({4, 5, 6})).size(), 6u);
  EXPECT_TRUE(engine->close().has_value());
  const trace::Activity after = engine->activity();
  ASSERT_GE(after.steps.size(), 10u);  // 1 + 3 and 1 + 5
  EXPECT_EQ(after.steps.front().kind, "prefill");
  EXPECT_EQ(after.steps.front().rows, 5);
  EXPECT_EQ(after.steps[1].kind, "decode");
  EXPECT_EQ(after.steps[1].rows, 1);
  for (size_t i = 0; i < after.steps.size(); ++i) EXPECT_EQ(after.steps[i].number, static_cast<int64_t>(i) + 1);
  ASSERT_THAT(after.ranks, SizeIs(2));
  EXPECT_GT(after.ranks[1].resident.value, 1 << 20);
  EXPECT_EQ(engine->counters().new_tokens, 10);
}

TEST_F(RequestFields, CountTokensWhileTheirRequestRuns) {
  const auto group = Group::alone().value();
  const auto engine = open(*group);
  std::promise<int64_t> counted;
  Request asked = request(prompt_, {{"max_new_tokens", "3"}});
  asked.on_token = [&, calls = 0](const Token&) mutable {
    if (++calls == 2) counted.set_value(engine->counters().new_tokens);
    return Verdict::kContinue;
  };
  RequestHandle handle = engine->submit(std::move(asked)).value();
  EXPECT_GE(counted.get_future().get(), 1);  // the token before, at least
  EXPECT_TRUE(handle.wait().has_value());
  EXPECT_EQ(engine->counters().new_tokens, 3);
  EXPECT_TRUE(engine->close().has_value());
}

TEST_F(RequestFields, CancelATextThatWaitsForItsSlot) {
  const auto group = Group::alone().value();
  EngineOptions options = scoring();
  options.slots = 1;
  const auto engine = open(*group, options);
  const auto blocks = std::make_shared<Blocks>();
  RequestHandle handle = engine->submit(blocked(blocks, "50")).value();
  blocks->wait_until_entered();
  ScoreHandle cancelled = engine->submit_text(prompt_).value();
  ScoreHandle scored = engine->submit_text(prompt_, 1).value();
  EXPECT_EQ(engine->counters().queued, 2);
  cancelled.cancel();
  std::promise<void> done;
  scored.on_done([&] { done.set_value(); });
  EXPECT_EQ(cancelled.wait().error().kind, ErrorKind::kCancelled);
  EXPECT_FALSE(scored.is_done());
  blocks->open();
  done.get_future().wait();
  EXPECT_TRUE(scored.is_done());
  EXPECT_EQ(scored.wait().value().size(), prompt_.size());
  EXPECT_EQ(scored.wait().value().size(), prompt_.size());  // as often as it is called
  EXPECT_TRUE(handle.wait().has_value());
  EXPECT_TRUE(engine->close().has_value());
  EXPECT_EQ(engine->counters().running + engine->counters().queued, 0);
  EXPECT_EQ(engine->submit_text(prompt_).error().kind, ErrorKind::kUnavailable);
}

}  // namespace
}  // namespace lockstep
