#include "engine/requests/request_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "tests/runtime/generation/tiny_tokenizer.h"
#include "tests/runtime/text/blank_tokenizer.h"

namespace lockstep::requests {
namespace {

using generation::kA, generation::kAb, generation::kB, generation::kBc, generation::kC, generation::kEuro1;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// Tells sequences as beams do, at the end.
class FoundSequences final : public generation::TokenChooser {
 public:
  explicit FoundSequences(std::vector<generation::Sequence> found) : found_(std::move(found)) {}

  int64_t rows() const override { return 1; }
  std::vector<std::vector<int32_t>> prompts() const override { return {{1}}; }
  generation::Choice choose(std::span<const float>) override { return {}; }
  std::span<const int32_t> certain() const override { return {}; }
  std::vector<generation::Sequence> sequences() const override { return found_; }

 private:
  std::vector<generation::Sequence> found_;
};

/// A log-probability and the raw logits of a vocabulary of 2.
std::shared_ptr<const TokenRecord> record(float logprob, float logit) {
  return std::make_shared<const TokenRecord>(TokenRecord{
      .logprob = logprob, .top = {{.id = 4, .logprob = logprob}}, .scores = {}, .logits = {logit, logit + 0.5f}});
}

class RequestStateTest : public ::testing::Test {
 protected:
  /// A request of as many parts as answers.
  std::shared_ptr<RequestState> make(RequestState::Setup setup = {}, const std::vector<int32_t>& prompt = {}) {
    setup.parts = setup.answers;
    setup.clock = &clock_;
    setup.delivery = &delivery_;
    return std::make_shared<RequestState>(std::move(setup), prompt);
  }

  actors::Verdict put(RequestState& state, size_t answer, int32_t id, std::vector<float> logits = {},
                      std::shared_ptr<const TokenRecord> record = nullptr) {
    clock_.advance(milliseconds(10));
    return state.take({.request = {}, .first_answer = answer},
                      {.id = id, .made = clock_.now(), .logits = logits, .record = std::move(record)});
  }

  static void finish(RequestState& state, size_t answer, FinishReason reason, const std::optional<Error>& error = {}) {
    if (state.finish({.request = {}, .first_answer = answer}, reason, error)) state.complete();
  }

  /// Appends delivered text to `shown_`.
  OnToken show(Verdict verdict = Verdict::kContinue) {
    return [this, verdict](const Token& token) {
      shown_ += token.text;
      return verdict;
    };
  }

  ManualClock clock_;
  Delivery delivery_;
  std::unique_ptr<text::Tokenizer> tokenizer_ = generation::tiny_tokenizer();
  std::string shown_;
};

TEST_F(RequestStateTest, KeepsTokensTextsReasonsAndLogitsOfEveryAnswer) {
  const auto state = make({.answers = 2, .tokenizer = tokenizer_.get(), .keeps_logits = true});
  put(*state, 0, kAb, {1, 2});
  put(*state, 1, kC, {5, 6});
  put(*state, 0, kC, {3, 4});
  EXPECT_THAT(state->so_far(0), ElementsAre(kAb, kC));
  finish(*state, 0, FinishReason::kLength);
  EXPECT_FALSE(state->is_done());
  finish(*state, 1, FinishReason::kEos);
  EXPECT_TRUE(state->is_done());
  const auto answers = state->wait().value();
  EXPECT_THAT(answers[0].ids, ElementsAre(kAb, kC));
  EXPECT_THAT(answers[0].logits, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(answers[0].text, "abc");
  EXPECT_EQ(answers[0].reason, FinishReason::kLength);
  EXPECT_EQ(answers[1].text, "c");
  EXPECT_EQ(answers[1].reason, FinishReason::kEos);
  EXPECT_EQ(state->take_count(), 3);
  EXPECT_EQ(state->take_count(), 0);
}

TEST_F(RequestStateTest, GoesOnBehindTheTextOfThePromptWithTheFirstTokensBlank) {
  const auto tokenizer = text::blank_tokenizer();
  const auto state = make({.answers = 2, .tokenizer = tokenizer.get(), .on_token = show()}, {text::kThe, text::kIs});
  put(*state, 0, text::kParis);
  finish(*state, 0, FinishReason::kLength);
  put(*state, 1, text::kCapital);
  finish(*state, 1, FinishReason::kLength);
  EXPECT_EQ(state->wait().value().at(0).text, " Paris");
  EXPECT_EQ(state->wait().value().at(1).text, " capital");
  EXPECT_EQ(shown_, " Paris capital");
  const auto begun = make({.tokenizer = tokenizer.get()}, {text::kThe, text::kBegin});
  put(*begun, 0, text::kParis);
  finish(*begun, 0, FinishReason::kLength);
  EXPECT_EQ(begun->wait().value().at(0).text, "Paris");
}

TEST_F(RequestStateTest, KeepsSpecialTokensInTheTextOnRequestExceptTheEnd) {
  for (const bool is_end : {false, true}) {
    RequestState::Setup setup{.tokenizer = tokenizer_.get(), .on_token = show()};
    setup.special_text = true;
    if (is_end) setup.end_ids = {generation::kEnd};
    const auto state = make(setup);
    shown_.clear();
    put(*state, 0, kA);
    put(*state, 0, generation::kEnd);
    finish(*state, 0, FinishReason::kEos);
    delivery_.wait_idle();
    EXPECT_EQ(state->wait().value().at(0).text, is_end ? "a" : "a<end>");
    EXPECT_EQ(shown_, is_end ? "a" : "a<end>");
  }
  RequestState::Setup setup{.tokenizer = tokenizer_.get(), .stop_strings = {"b<e"}};
  setup.special_text = true;
  const auto state = make(setup);
  put(*state, 0, kAb);
  EXPECT_EQ(put(*state, 0, generation::kEnd), actors::Verdict::kStop);
  finish(*state, 0, FinishReason::kStop);
  EXPECT_EQ(state->wait().value().at(0).text, "a");
}

TEST_F(RequestStateTest, NotesTheReusedTokensOfAPromptOnce) {
  const auto state = make({.answers = 2});
  const Part second{.request = {.id = {}, .ids = {1, 2, 3, 4, 5}, .parameters = {}}, .first_answer = 1};
  EXPECT_EQ(state->note_cached(second, 4), 4);
  EXPECT_EQ(state->note_cached(second, 5), 0);  // admitted again
  finish(*state, 0, FinishReason::kLength);
  finish(*state, 1, FinishReason::kLength);
  const auto answers = state->wait().value();
  EXPECT_EQ(answers[0].cached_tokens, 0);
  EXPECT_EQ(answers[1].cached_tokens, 4);
}

TEST_F(RequestStateTest, StopsBeforeAStopStringAndShowsNothingOfIt) {
  const auto state = make({.tokenizer = tokenizer_.get(), .stop_strings = {"bcb"}, .on_token = show()});
  EXPECT_EQ(put(*state, 0, kA), actors::Verdict::kContinue);
  EXPECT_EQ(put(*state, 0, kBc), actors::Verdict::kContinue);
  delivery_.wait_idle();
  EXPECT_EQ(shown_, "a");
  EXPECT_EQ(put(*state, 0, kB), actors::Verdict::kStop);
  finish(*state, 0, FinishReason::kStop);
  const Answer answer = state->wait().value().at(0);
  EXPECT_EQ(shown_, "a");
  EXPECT_EQ(answer.text, "a");
  EXPECT_EQ(answer.stop_string, "bcb");
  EXPECT_THAT(answer.ids, ElementsAre(kA, kBc, kB));
}

TEST_F(RequestStateTest, NamesNoStopStringForAnAnswerThatEndsOtherwise) {
  const auto state = make({.tokenizer = tokenizer_.get(), .stop_strings = {"bcb"}});
  put(*state, 0, kBc);
  finish(*state, 0, FinishReason::kEos);
  EXPECT_EQ(state->wait().value().at(0).stop_string, "");
}

TEST_F(RequestStateTest, TellsTheTimeFromItsSubmissionToItsFirstSlot) {
  const auto state = make({.parts = 2});
  clock_.advance(std::chrono::seconds(3));
  state->start();
  clock_.advance(std::chrono::seconds(4));
  state->start();
  finish(*state, 0, FinishReason::kLength);
  finish(*state, 0, FinishReason::kLength);
  EXPECT_EQ(state->wait().value().at(0).waited, std::chrono::seconds(3));
}

TEST_F(RequestStateTest, ShowsAtTheEndWhatWasHeldBack) {
  const auto state = make({.tokenizer = tokenizer_.get(), .stop_strings = {"bcb"}, .on_token = show()});
  put(*state, 0, kBc);
  put(*state, 0, kEuro1);
  delivery_.wait_idle();
  EXPECT_EQ(shown_, "");
  finish(*state, 0, FinishReason::kLength);
  EXPECT_EQ(state->wait().value().at(0).text, shown_);
  EXPECT_EQ(shown_, "bc\xEF\xBF\xBD");
}

TEST_F(RequestStateTest, StopsWhenItsTimeIsOverCountedFromItsFirstStep) {
  const auto state = make({.max_time = milliseconds(15)});
  clock_.advance(milliseconds(100));  // in the queue: does not count
  EXPECT_TRUE(state->start());
  EXPECT_FALSE(state->start());
  EXPECT_EQ(put(*state, 0, 7), actors::Verdict::kContinue);
  EXPECT_EQ(put(*state, 0, 7), actors::Verdict::kStop);
}

TEST_F(RequestStateTest, ShowsNothingForATokenThatTheTokenizerLacks) {
  const auto state = make({.tokenizer = tokenizer_.get()});
  EXPECT_EQ(put(*state, 0, 99), actors::Verdict::kContinue);
  put(*state, 0, kBc);
  finish(*state, 0, FinishReason::kStop);
  const auto answers = state->wait();
  ASSERT_TRUE(answers.has_value()) << answers.error().message;
  EXPECT_EQ(answers.value().at(0).text, "bc");
}

TEST_F(RequestStateTest, KeepsTheTimeOfEveryToken) {
  clock_.advance(milliseconds(500));
  const auto state = make({.answers = 2});
  put(*state, 0, 1);
  put(*state, 1, 1);
  put(*state, 0, 1);
  put(*state, 0, 1);
  finish(*state, 0, FinishReason::kLength);
  finish(*state, 1, FinishReason::kLength);
  const auto answers = state->wait().value();
  EXPECT_THAT(answers[0].times.latencies(), ElementsAre(milliseconds(10), milliseconds(20), milliseconds(10)));
  EXPECT_THAT(answers[1].times.latencies(), ElementsAre(milliseconds(20)));
}

TEST_F(RequestStateTest, TakesTheWholeAnswersOfBeams) {
  const auto state = std::make_shared<RequestState>(RequestState::Setup{.answers = 2,
                                                                        .parts = 1,
                                                                        .tokenizer = tokenizer_.get(),
                                                                        .stop_strings = {"bc"},
                                                                        .keeps_logits = true,
                                                                        .clock = &clock_,
                                                                        .delivery = &delivery_});
  const auto found = std::make_shared<FoundSequences>(std::vector<generation::Sequence>{
      {.ids = {kAb, kC}, .score = -0.5, .reason = FinishReason::kStop, .records = {}},
      {.ids = {kB, kA}, .score = -1.5, .reason = FinishReason::kLength, .records = {record(-1, 3)}}});
  Part part{.request = {}, .first_answer = 0, .answers = 2, .as_made = false};
  part.request.chooser = found;
  EXPECT_TRUE(state->finish(part, FinishReason::kLength, std::nullopt));
  state->complete();
  const auto answers = state->wait().value();
  EXPECT_THAT(answers[0].ids, ElementsAre(kAb, kC));
  EXPECT_EQ(answers[0].text, "a");  // cut before the stop string
  EXPECT_EQ(answers[0].score, -0.5);
  EXPECT_EQ(answers[0].reason, FinishReason::kStop);
  EXPECT_EQ(answers[1].text, "ba");
  EXPECT_THAT(answers[1].logits, ElementsAre(3, 3.5));
  EXPECT_THAT(answers[1].times.made, IsEmpty());
}

TEST_F(RequestStateTest, KeepsTheRecordsOfTokensThatTheHostChose) {
  const auto state = make({.keeps_logits = true});
  put(*state, 0, 4, {}, record(-1, 1));
  put(*state, 0, 5, {}, record(-2, 2));
  finish(*state, 0, FinishReason::kStop);
  const Answer answer = state->wait().value().at(0);
  EXPECT_THAT(answer.records, SizeIs(2));
  EXPECT_THAT(answer.logits, ElementsAre(1, 1.5, 2, 2.5));
  EXPECT_EQ(answer.score, std::nullopt);
}

TEST_F(RequestStateTest, IsCutWhereTheCallersFunctionStopsIt) {
  bool is_stopped = false;
  const auto state = make({.tokenizer = tokenizer_.get(), .keeps_logits = true, .on_token = show(Verdict::kStop)});
  state->link({.stop = [&] { is_stopped = true; }, .wait = {}});
  put(*state, 0, kA, {1, 2});
  put(*state, 0, kB, {3, 4});  // may have been generated before the function's verdict
  delivery_.wait_idle();
  EXPECT_TRUE(is_stopped);
  EXPECT_EQ(put(*state, 0, kC, {5, 6}), actors::Verdict::kStop);
  finish(*state, 0, FinishReason::kCancelled);
  const Answer answer = state->wait().value().at(0);
  EXPECT_THAT(answer.ids, ElementsAre(kA));
  EXPECT_THAT(answer.logits, ElementsAre(1, 2));
  EXPECT_EQ(answer.text, "a");
  EXPECT_EQ(answer.reason, FinishReason::kStop);
  EXPECT_THAT(answer.times.made, SizeIs(1));
}

TEST_F(RequestStateTest, FailsWhereTheCallersFunctionThrows) {
  const auto state = make({.on_token = [](const Token&) -> Verdict { throw std::runtime_error("no disk"); }});
  put(*state, 0, 1);
  finish(*state, 0, FinishReason::kLength);
  EXPECT_THAT(state->wait().error().message, HasSubstr("on_token failed: no disk"));
}

TEST_F(RequestStateTest, CancelKeepsWhatThereIs) {
  const auto state = make({.tokenizer = tokenizer_.get()});
  put(*state, 0, kA);
  state->cancel();
  EXPECT_EQ(put(*state, 0, kB), actors::Verdict::kStop);
  finish(*state, 0, FinishReason::kStop);
  const Answer answer = state->wait().value().at(0);
  EXPECT_THAT(answer.ids, ElementsAre(kA));
  EXPECT_EQ(answer.text, "a");
  EXPECT_EQ(answer.reason, FinishReason::kCancelled);
  state->cancel();  // nothing happens
}

TEST_F(RequestStateTest, TellsOnceThatItIsDoneBehindItsLastToken) {
  std::vector<std::string> calls;
  const auto state = make({.on_token = [&](const Token&) {
    calls.push_back("token");
    return Verdict::kContinue;
  }});
  state->on_done([&] { calls.push_back("done"); });
  put(*state, 0, 1);
  finish(*state, 0, FinishReason::kLength);
  delivery_.wait_idle();
  EXPECT_THAT(calls, ElementsAre("token", "done"));
}

}  // namespace
}  // namespace lockstep::requests
