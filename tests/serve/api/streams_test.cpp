#include "launcher/serve/api/reading.h"
#include "tests/serve/api/api_fixture.h"

namespace lockstep::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Streams = ApiTest;

Document with_usage(Document body) {
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}, {"unknown_option", 1}};
  return body;
}

TEST_F(Streams, OfACompletionEndWithReasonUsageAndDone) {
  const auto exchange = complete(with_usage({{"prompt", "a"}}));
  EXPECT_FALSE(exchange->head);
  engine_.calls[0]->say("x→");
  engine_.calls[0]->finish("eos");
  ASSERT_TRUE(exchange->head);
  EXPECT_EQ(exchange->head->content_type, "text/event-stream");
  const auto events = exchange->events();
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0], Document::parse(R"({"id": "cmpl-r1", "object": "text_completion", "created": 1000,
    "model": "tiny", "choices": [{"index": 0, "text": "x→", "logprobs": null, "finish_reason": null}],
    "usage": null})"));
  EXPECT_EQ(events[1]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(events[1]["choices"][0]["text"], "");
  EXPECT_TRUE(events[1]["usage"].is_null());
  EXPECT_EQ(events[2]["choices"], Document::array());
  EXPECT_EQ(events[2]["usage"]["completion_tokens"], 4);
  EXPECT_EQ(events[3], "[DONE]");
  EXPECT_TRUE(exchange->is_ended);
}

TEST_F(Streams, OfAChatBeginWithTheRoleAndEndWithAnEmptyDelta) {
  const auto exchange = chat(with_usage({{"messages", user_says("a")}}));
  engine_.calls[0]->say("x");
  engine_.calls[0]->finish("length");
  const auto events = exchange->events();
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0], Document::parse(R"({"id": "chatcmpl-r1", "object": "chat.completion.chunk", "created": 1000,
    "model": "tiny", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": null,
    "finish_reason": null}], "usage": null})"));
  EXPECT_EQ(events[1]["choices"][0]["delta"], Document({{"content", "x"}}));
  EXPECT_EQ(events[2]["choices"][0]["delta"], Document::object());
  EXPECT_EQ(events[2]["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(events[3]["choices"], Document::array());
}

TEST_F(Streams, SayNothingOfUsageUnlessAsked) {
  const auto exchange = complete({{"prompt", "a"}, {"stream", true}});
  engine_.calls[0]->say("x");
  engine_.calls[0]->finish("eos");
  EXPECT_THAT(exchange->stream, Not(HasSubstr("usage")));
}

TEST_F(Streams, CountInEveryChunkOnRequest) {
  const auto exchange = complete({{"prompt", "a"},
                                  {"stream", true},
                                  {"stream_options", {{"include_usage", true}, {"continuous_usage_stats", true}}}});
  engine_.calls[0]->say("x");
  engine_.calls[0]->say("y");
  const auto events = exchange->events();
  EXPECT_EQ(events[0]["usage"]["completion_tokens"], 1);
  EXPECT_EQ(events[1]["usage"]["completion_tokens"], 2);
}

TEST_F(Streams, HoldNoHalfCharacterAndEscapeLineSeparators) {
  const auto exchange = complete({{"prompt", "a"}, {"stream", true}});
  engine_.calls[0]->say_token(0xE2, "");
  EXPECT_EQ(exchange->stream, "");
  engine_.calls[0]->say_token(0xA8, "\u2028");
  EXPECT_THAT(exchange->stream, HasSubstr(R"("text":"\u2028")"));
  EXPECT_THAT(exchange->stream, Not(HasSubstr("\u2028")));
  EXPECT_EQ(exchange->events().at(0)["choices"][0]["text"], "\u2028");
}

TEST_F(Streams, HoldTheEchoAndItsLogProbabilitiesFirst) {
  const auto exchange = complete({{"prompt", "a"}, {"stream", true}, {"echo", true}, {"logprobs", 0}});
  engine_.give_score(0);
  engine_.calls.at(0)->say("x");
  engine_.calls[0]->finish("length");
  const auto events = exchange->events();
  EXPECT_EQ(events[0]["choices"][0]["text"], "a");
  EXPECT_EQ(events[0]["choices"][0]["logprobs"]["tokens"], Document({"<s>", "a"}));
  EXPECT_EQ(events[1]["choices"][0]["logprobs"]["tokens"], Document({"x"}));
  EXPECT_EQ(events[1]["choices"][0]["logprobs"]["text_offset"], Document({1}));
}

TEST_F(Streams, GiveEachChoiceItsOwnRoleAndEnd) {
  const auto exchange = chat({{"messages", user_says("a")}, {"n", 2}, {"stream", true}});
  engine_.calls[1]->say("b");
  engine_.calls[0]->say("a");
  engine_.calls[1]->finish("eos");
  engine_.calls[0]->finish("length");
  std::vector<int> order;
  for (const Document& event : exchange->events()) {
    if (event.is_object()) order.push_back(event["choices"][0]["index"].get<int>());
  }
  EXPECT_THAT(order, ElementsAre(1, 1, 0, 0, 1, 0));
}

TEST_F(Streams, TellAnErrorBehindTheFirstByteInAnEvent) {
  const auto exchange = complete({{"prompt", "a"}, {"stream", true}});
  engine_.calls[0]->say("x");
  engine_.calls[0]->fail({ErrorKind::kPeerLost, "rank 1 is lost"});
  const auto events = exchange->events();
  EXPECT_EQ(events[1]["error"]["message"], "rank 1 is lost");
  EXPECT_EQ(events[2], "[DONE]");
  EXPECT_TRUE(exchange->is_ended);
  EXPECT_THAT(observer_.lines, ::testing::Contains("ended 1 503 error cached 0 new 1 in 0"));
}

TEST_F(Streams, EndTheEnginesWorkWhenTheClientLeaves) {
  for (const bool stream : {true, false}) {
    const auto exchange = complete({{"prompt", "a"}, {"n", 2}, {"stream", stream}});
    const size_t first = engine_.calls.size() - 2;
    engine_.calls[first]->say("x");
    exchange->on_gone();
    loop_.run();
    EXPECT_TRUE(engine_.calls[first]->is_dropped);
    EXPECT_TRUE(engine_.calls[first + 1]->is_dropped);
    EXPECT_EQ(api_->open_requests(), 0u);
    EXPECT_FALSE(exchange->response);
  }
  EXPECT_THAT(observer_.lines.back(), HasSubstr("ended 2 499 cancelled"));
}

TEST_F(Streams, EndTheScoresOfPromptsWhenTheClientLeaves) {
  const auto exchange = complete({{"prompt", Document::array({"ab", "cd"})},
                                  {"echo", true},
                                  {"logprobs", 0},
                                  {"max_tokens", 0},
                                  {"stream", false}});
  ASSERT_EQ(engine_.scores.size(), 2u);
  EXPECT_FALSE(engine_.scores[1]->is_dropped);
  exchange->on_gone();
  loop_.run();
  EXPECT_TRUE(engine_.scores[0]->is_dropped);
  EXPECT_TRUE(engine_.scores[1]->is_dropped);
  EXPECT_EQ(api_->open_requests(), 0u);
}

TEST_F(Streams, EndTheScoresOfOtherPromptsWhenOneFails) {
  const auto exchange =
      complete({{"prompt", Document::array({"ab", "cd"})}, {"echo", true}, {"logprobs", 0}, {"max_tokens", 0}});
  ASSERT_EQ(engine_.scores.size(), 2u);
  engine_.scores[0]->done(Error{ErrorKind::kInvalidArgument, "no"});
  loop_.run();
  EXPECT_TRUE(engine_.scores[1]->is_dropped);
  EXPECT_EQ(exchange->status(), 400);
}

TEST_F(Streams, OpenNothingForAClientThatLeftWhileItsBodyWasRead) {
  auto exchange = std::make_shared<FakeExchange>();
  exchange->sent = {
      .method = "POST", .path = "/v1/completions", .body = R"({"prompt": "a"})", .peer = "127.0.0.1:5000", .id = "r9"};
  api_->handle(exchange);
  exchange->on_gone();
  loop_.run();
  EXPECT_TRUE(engine_.calls.empty());
  EXPECT_EQ(api_->open_requests(), 0u);
  EXPECT_THAT(observer_.lines, ElementsAre("answered /v1/completions r9 127.0.0.1:5000 499"));
}

/// Counts the bodies that it reads.
class CountingProtocol final : public Protocol {
 public:
  ApiResult<Outcome> read(const BodyField&, const ReadContext&) const override {
    ++reads;
    return Outcome(HttpResponse{});
  }
  HttpResponse refuse(const ApiError& error) const override { return api_error(error); }

  mutable int reads = 0;
};

TEST(Reading, OfABodyWhoseClientHasLeftIsOmitted) {
  const CountingProtocol protocol;
  Reading kept("{}", {});
  kept.read(protocol);
  EXPECT_TRUE(kept.outcome().has_value());
  Reading abandoned("{}", {});
  abandoned.abandon();
  abandoned.read(protocol);
  EXPECT_FALSE(abandoned.outcome().has_value());
  EXPECT_EQ(protocol.reads, 1);
}

TEST_F(Streams, ReadLongBodiesApartFromShortOnes) {
  complete({{"prompt", "a"}});
  complete({{"prompt", "a"}, {"user", std::string(size_t{256} << 10, 'u')}});
  complete({{"prompt", "a"}});
  EXPECT_THAT(loop_.lanes, ElementsAre(ComputeLane::kShort, ComputeLane::kLong, ComputeLane::kShort));
}

TEST_F(Streams, PauseWhileTheClientDoesNotRead) {
  options_.most_unsent = 100;
  restart();
  const auto exchange = complete({{"prompt", "a"}, {"n", 2}, {"stream", true}});
  engine_.calls[0]->say("x");
  EXPECT_FALSE(engine_.calls[0]->is_paused);
  exchange->not_taken = 101;
  engine_.calls[0]->say("y");
  EXPECT_TRUE(engine_.calls[0]->is_paused);
  EXPECT_TRUE(engine_.calls[1]->is_paused);
  exchange->not_taken = 50;
  exchange->on_taken();
  EXPECT_FALSE(engine_.calls[0]->is_paused);
  EXPECT_FALSE(engine_.calls[1]->is_paused);
}

TEST_F(Streams, CarryCommentsWhileNothingHappens) {
  const auto exchange = complete({{"prompt", "a"}, {"stream", true}});
  loop_.advance(std::chrono::seconds(9));
  EXPECT_EQ(exchange->stream, "");
  loop_.advance(std::chrono::seconds(1));
  EXPECT_EQ(exchange->stream, ": waiting\n\n");
  ASSERT_TRUE(exchange->head);
  engine_.calls[0]->say("x");
  loop_.advance(std::chrono::seconds(10));  // not silent
  EXPECT_THAT(exchange->events(), ::testing::SizeIs(1));
  loop_.advance(std::chrono::seconds(10));
  EXPECT_THAT(exchange->stream, ::testing::EndsWith(": waiting\n\n"));
  engine_.calls[0]->finish("eos");
  const std::string whole = exchange->stream;
  loop_.advance(std::chrono::seconds(30));
  EXPECT_EQ(exchange->stream, whole);
}

TEST_F(Streams, ReportTimesAndTokens) {
  complete({{"prompt", "ab"}});
  clock_.advance(std::chrono::seconds(2));
  engine_.calls[0]->say("x");
  clock_.advance(std::chrono::seconds(1));
  engine_.calls[0]->say("yz");
  engine_.calls[0]->finish("eos", 1);
  EXPECT_THAT(observer_.lines,
              ElementsAre("started 1 /v1/completions choices 1 prompt 3", "first 1 after 2", "tokens 1 1 gap 0",
                          "tokens 1 2 gap 1", "ended 1 200 stop cached 1 new 3 in 3"));
}

}  // namespace
}  // namespace lockstep::serve
