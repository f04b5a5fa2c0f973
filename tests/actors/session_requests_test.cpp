// Tests of requests to a session: shared prompts, choosers, drafts, long sequences, and combinations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <stdexcept>

#include "tests/actors/collecting_sink.h"
#include "tests/actors/fake_choosers.h"
#include "tests/actors/test_session.h"

namespace lockstep::actors {
namespace {

using generation::FinishReason;
using ::testing::HasSubstr;

/// Runs `requests` to their ends in one session of `size` ranks that are threads.
void run(TestSession& test, const std::vector<Request>& requests, CollectingSink& sink, int size = 1) {
  for (const Request& request : requests) test.client().submit(request, sink);
  test.client().finish();
  test.start();
  test.join();
  for (int r = 0; r < size; ++r) {
    ASSERT_TRUE(test.rank(r).result.has_value()) << test.rank(r).result.error().message;
    EXPECT_EQ(test.rank(r).engine.ran(), test.rank(0).engine.ran());
  }
  for (const Request& request : requests) EXPECT_EQ(sink.answer(request.id).finishes, 1);
}

std::shared_ptr<FakeBeams> beams(FakeBeams::Options options) { return std::make_shared<FakeBeams>(std::move(options)); }

TEST(SessionRequests, PrefillsAPromptOfManyAnswersOnce) {
  TestSession test(1, Processes::kOne, {.slots = 4, .chunk = 8});
  CollectingSink sink;
  std::vector<Request> requests;
  for (int i = 0; i < 4; ++i) {
    requests.push_back(request(i, prompt(33, 1), 6));
    requests.back().parameters.sampling = {.do_sample = true, .seed = static_cast<uint64_t>(i)};
  }
  run(test, requests, sink);
  EXPECT_EQ(test.rank(0).engine.prefilled_rows(), 32 + 4);
  EXPECT_EQ(test.rank(0).engine.copies(), 3);
  for (const Request& r : requests) EXPECT_EQ(sink.answer(r.id).tokens, expected_answer(r.ids, r.parameters));
}

TEST(SessionRequests, DelaysRunningAnswersByOneShortChunkOfALongPromptAndAnswersAsWithoutABudget) {
  const Request running = request(1, prompt(3, 1), 500), late = request(2, prompt(600, 2), 5);
  for (const auto budget : {std::optional<Duration>(), {Duration::zero()}, {std::chrono::nanoseconds(1)}}) {
    TestSession test(2, Processes::kOne, {.slots = 2, .chunk = 64, .chunk_sizes = {16, 32, 64}, .capacity = 1000},
                     {.chunk_budget = budget});
    test.rank(1).engine.block_at(3);  // in the middle of the first answer
    CollectingSink sink;
    test.client().submit(running, sink);
    test.start();
    ASSERT_TRUE(test.rank(1).engine.wait_until_blocked());
    test.client().submit(late, sink);
    test.client().finish();
    test.rank(1).engine.unblock();
    test.join();
    for (const Request& r : {running, late}) {
      EXPECT_EQ(sink.answer(r.id).tokens, expected_answer(r.ids, r.parameters));
    }
    int64_t rows = 0, most_steps = 0, most_rows = 0;
    for (const Schedule& schedule : test.schedules()) {
      if (schedule.number == 0) continue;
      for (const auto& step : schedule.prefills) {
        most_rows = std::max(most_rows, std::ssize(step.ids));
        rows += std::ssize(step.ids);
      }
      most_steps = std::max(most_steps, std::ssize(schedule.prefills));
      EXPECT_TRUE(schedule.prefills.empty() || schedule.decode_steps > 0) << to_string(schedule);
    }
    EXPECT_EQ(rows, 600);
    EXPECT_EQ(most_steps, budget ? 1 : 8);
    EXPECT_LE(most_rows, 64);
  }
}

TEST(SessionRequests, LetsBeamsPermuteTheirSlotsOnEveryRank) {
  TestSession test(3, Processes::kOnePerRank, {.slots = 4, .vocabulary = kFakeVocabulary}, {.decode_steps = 4});
  CollectingSink sink;
  const auto chooser = beams({.prompts = {prompt(9, 1), {}, {}}, .choices = 17});
  const Request beside = request(2, prompt(5, 2), 30);
  run(test, {request_with(1, chooser, 20), beside}, sink, /*size=*/3);
  EXPECT_EQ(chooser->made(), 17);
  EXPECT_EQ(chooser->mistakes(), 0);
  EXPECT_GT(test.rank(0).engine.copies(), 10);
  EXPECT_EQ(sink.answer(RequestId(1)).reason, FinishReason::kEos);  // that of its best sequence
  EXPECT_TRUE(sink.answer(RequestId(1)).tokens.empty());
  EXPECT_EQ(sink.answer(beside.id).tokens, expected_answer(beside.ids, beside.parameters));
}

TEST(SessionRequests, StreamsWhatAChooserIsCertainOf) {
  TestSession test(2, Processes::kOne, {.vocabulary = kFakeVocabulary});
  CollectingSink sink;
  const auto guided =
      beams({.prompts = {prompt(9, 1), prompt(3, 2)}, .choices = 9, .streams = true, .permutes = false});
  run(test, {request_with(1, guided, 12)}, sink, /*size=*/2);
  EXPECT_EQ(guided->mistakes(), 0);
  EXPECT_EQ(guided->made(), 9);
  EXPECT_FALSE(guided->streamed().empty());
  EXPECT_EQ(sink.answer(RequestId(1)).tokens, guided->streamed());
}

TEST(SessionRequests, EndsAChooserAtItsBudget) {
  TestSession test(1, Processes::kOne, {.vocabulary = kFakeVocabulary});
  CollectingSink sink;
  const auto chooser = beams({.prompts = {prompt(3, 1)}, .choices = 99, .streams = true});
  run(test, {request_with(1, chooser, 6)}, sink);
  EXPECT_EQ(sink.answer(RequestId(1)).tokens.size(), 6u);
  EXPECT_EQ(sink.answer(RequestId(1)).reason, FinishReason::kLength);
}

TEST(SessionRequests, StopsAChooserAtTheTokenThatTheSinkSays) {
  constexpr int64_t kForever = 1'000'000;  // far more than are made before the stop is known
  TestSession test(2, Processes::kOne, {.capacity = 2 * kForever, .vocabulary = kFakeVocabulary});
  CollectingSink sink(
      [](RequestId, const auto& tokens) { return tokens.size() == 3 ? Verdict::kStop : Verdict::kContinue; });
  const auto chooser = beams({.prompts = {prompt(3, 1), {}}, .choices = kForever, .streams = true});
  run(test, {request_with(1, chooser, kForever)}, sink, /*size=*/2);
  EXPECT_EQ(sink.answer(RequestId(1)).tokens.size(), 3u);
  EXPECT_EQ(sink.answer(RequestId(1)).reason, FinishReason::kStop);
  EXPECT_LT(chooser->made(), kForever);
}

TEST(SessionRequests, NeverAsksAChooserAfterItsRequestWasStopped) {
  TestSession test(1, Processes::kOne, {.slots = 2, .vocabulary = kFakeVocabulary});
  CollectingSink sink;
  const auto chooser = beams({.prompts = {prompt(3, 1), {}}, .choices = 99});
  const Request next = request(2, prompt(4, 2), 5);
  test.rank(0).engine.block_at(6);
  test.client().submit(request_with(1, chooser, 50), sink);
  test.client().submit(next, sink);
  test.client().finish();
  test.start();
  ASSERT_TRUE(test.rank(0).engine.wait_until_blocked());
  test.client().stop(RequestId(1));
  ASSERT_TRUE(sink.wait_for_finish(RequestId(1)));
  const int64_t made = chooser->made();
  test.rank(0).engine.unblock();
  test.join();
  EXPECT_EQ(chooser->made(), made);
  EXPECT_EQ(sink.answer(RequestId(1)).reason, FinishReason::kStop);
  EXPECT_EQ(sink.answer(next.id).tokens, expected_answer(next.ids, next.parameters));
}

TEST(SessionRequests, EndsOnlyTheRequestWhoseChooserFails) {
  TestSession test(2, Processes::kOne, {.slots = 3, .vocabulary = kFakeVocabulary});
  CollectingSink sink;
  int asked = 0;
  const auto thrower = std::make_shared<ScriptedChooser>(prompt(3, 1), [&](auto) -> generation::Choice {
    if (++asked == 4) throw std::runtime_error("out of ideas");
    return {{1}, {0}};
  });
  const auto wild = std::make_shared<ScriptedChooser>(prompt(3, 1), [](auto) { return generation::Choice{{1}, {5}}; });
  const Request other = request(3, prompt(4, 2), 20);
  run(test, {request_with(1, thrower, 50), request_with(2, wild, 50), other}, sink, /*size=*/2);
  EXPECT_EQ(sink.answer(RequestId(1)).reason, FinishReason::kError);
  EXPECT_THAT(sink.answer(RequestId(1)).error->message, HasSubstr("out of ideas"));
  EXPECT_THAT(sink.answer(RequestId(2)).error->message, HasSubstr("row 0 cannot go on from row 5"));
  EXPECT_EQ(sink.answer(other.id).tokens, expected_answer(other.ids, other.parameters));
}

TEST(SessionRequests, RefusesAChooserWhereTheEngineHasNoLogits) {
  TestSession test(1, Processes::kOne);
  CollectingSink sink;
  run(test, {request_with(1, beams({.prompts = {prompt(3, 1)}}), 5)}, sink);
  EXPECT_THAT(sink.answer(RequestId(1)).error->message, HasSubstr("logits were not asked for at start"));
}

TEST(SessionRequests, RunsASequenceThatOutgrowsTheShortFactorsInTwoParts) {
  for (const int64_t tokens_per_step : {1, 3}) {
    TestSession test(2, Processes::kOne, {.slots = 2, .tokens_per_step = tokens_per_step, .long_rope_after = 12},
                     {.decode_steps = 5});
    CollectingSink sink;
    std::vector<Request> requests;
    for (const int length : {3, 11, 12, 13, 5}) {
      requests.push_back(request(length, prompt(length, length), 15));
      requests.back().parameters.sampling = {.do_sample = true, .seed = 7};  // sampling continues its random numbers
    }
    requests.push_back(request(1, prompt(4, 9), 9));  // ends with the token after the border
    Request until = request(2, prompt(8, 3), 40);
    until.parameters.eos_ids = {expected_answer(until.ids, until.parameters, 12)[9]};
    until.parameters.min_new_tokens = 7;
    requests.push_back(until);
    run(test, requests, sink, /*size=*/2);
    for (const Request& r : requests) {
      EXPECT_EQ(sink.answer(r.id).tokens, expected_answer(r.ids, r.parameters, 12)) << r.ids.size();
    }
  }
}

TEST(SessionRequests, StopsASequenceBetweenItsTwoParts) {
  TestSession test(1, Processes::kOne, {.slots = 1, .long_rope_after = 8});
  CollectingSink sink([](RequestId id, const auto& tokens) {
    return id == RequestId(1) && tokens.size() == 6 ? Verdict::kStop : Verdict::kContinue;
  });
  const Request next = request(2, prompt(3, 2), 9);
  run(test, {request(1, prompt(3, 1), 30), next}, sink);
  EXPECT_EQ(sink.answer(RequestId(1)).tokens.size(), 6u);
  EXPECT_EQ(sink.answer(next.id).tokens, expected_answer(next.ids, next.parameters, 8));
}

/// A random job: its requests and expected answers.
class RandomJob {
 public:
  explicit RandomJob(uint32_t seed) : random_(seed) {
    engine_ = {.slots = draw(1, 5),
               .chunk = draw(1, 12),
               .capacity = 64,
               .rows_of_one_slot = draw(0, 3) == 0,
               .vocabulary = kFakeVocabulary,
               .tokens_per_step = draw(0, 2) == 0 ? draw(2, 4) : 1,
               .long_rope_after = draw(0, 2) == 0 ? draw(5, 30) : 0};
    session_ = {.decode_steps = draw(1, 9), .prefill_steps = draw(1, 4), .in_flight = draw(1, 3)};
    for (int64_t id = 0, count = draw(1, 12); id < count; ++id) add(id);
  }

  void check() {
    const int size = draw(1, 2);
    TestSession test(size, Processes::kOne, engine_, session_);
    CollectingSink sink([this](RequestId id, const auto& tokens) {
      const auto stop = stops_.find(id);
      return stop != stops_.end() && tokens.size() == stop->second ? Verdict::kStop : Verdict::kContinue;
    });
    if (draw(0, 1) == 0) test.start();  // else all requests are there when planning starts
    run(test, requests_, sink, size);
    for (const Request& request : requests_) {
      const Answer answer = sink.answer(request.id);
      if (const auto stop = stops_.find(request.id); stop != stops_.end() && answer.tokens.size() == stop->second) {
        auto expected = expected_answer(request.ids, request.parameters, engine_.long_rope_after);
        expected.resize(stop->second);
        EXPECT_EQ(answer.tokens, expected);
      } else if (request.chooser) {
        const auto& chooser = static_cast<const FakeBeams&>(*request.chooser);
        EXPECT_EQ(answer.reason, FinishReason::kEos) << answer.error.value_or(Error{}).message;
        EXPECT_EQ(chooser.mistakes(), 0);
      } else {
        EXPECT_EQ(answer.tokens, expected_answer(request.ids, request.parameters, engine_.long_rope_after));
      }
    }
  }

 private:
  int draw(int low, int high) { return std::uniform_int_distribution(low, high)(random_); }

  /// One of a few beginnings, so that prompts share some, and a unique end.
  std::vector<int32_t> random_prompt() {
    std::vector<int32_t> ids = prompt(draw(1, 25), draw(0, 1));
    for (int i = draw(0, 3); i > 0; --i) ids.push_back(draw(0, 999));
    return ids;
  }

  void add(int64_t id) {
    if (engine_.tokens_per_step == 1 && draw(0, 2) == 0) return add_chooser(id);
    Request made = request(id, random_prompt(), draw(1, 30));
    made.parameters.sampling = {.do_sample = draw(0, 1) == 0, .seed = static_cast<uint64_t>(id)};
    made.parameters.min_new_tokens = draw(0, 5);
    for (int i = draw(0, 3); i > 0; --i) made.parameters.eos_ids.push_back(draw(10, 99));
    if (draw(0, 3) == 0) stops_[made.id] = static_cast<size_t>(draw(1, 20));
    requests_.push_back(std::move(made));
  }

  void add_chooser(int64_t id) {
    FakeBeams::Options options{
        .prompts = {random_prompt()}, .choices = draw(1, 9), .seed = static_cast<uint32_t>(random_())};
    for (int64_t row = draw(1, static_cast<int>(engine_.slots)); row > 1; --row) {
      options.prompts.push_back(draw(0, 2) == 0 ? random_prompt() : std::vector<int32_t>());
    }
    const int32_t new_tokens = draw(9, 20);
    const int64_t border = engine_.long_rope_after;
    const auto is_long = [&](const auto& ids) { return ids.empty() || std::ssize(ids) > border; };
    const auto is_short = [&](const auto& ids) { return std::ssize(ids) + new_tokens <= border + 1; };
    const bool is_served =
        border == 0 || std::ranges::all_of(options.prompts, is_long) || std::ranges::all_of(options.prompts, is_short);
    if (is_served) requests_.push_back(request_with(id, beams(std::move(options)), new_tokens));
  }

  std::mt19937 random_;
  FakeEngine::Options engine_;
  SessionOptions session_;
  std::vector<Request> requests_;
  std::map<RequestId, size_t> stops_;  // the number of tokens after which the sink stops
};

TEST(SessionRequests, AnswersWhateverIsAskedForAsTheOracleDoes) {
  for (uint32_t seed = 0; seed < 150 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    RandomJob(seed).check();
  }
}

}  // namespace
}  // namespace lockstep::actors
