#include "tests/runtime/text/blank_tokenizer.h"
#include "tests/serve/api/api_fixture.h"

namespace lockstep::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Completions = ApiTest;

TEST_F(Completions, AnswerInOpenAisForm) {
  const auto exchange = complete({{"model", "tiny"}, {"prompt", "ab"}, {"max_tokens", 4}, {"temperature", 0}});
  ASSERT_EQ(engine_.calls.size(), 1u);
  EXPECT_THAT(engine_.calls[0]->request.ids, ElementsAre(256, 'a', 'b'));
  EXPECT_EQ(engine_.calls[0]->option("max_new_tokens"), "4");
  EXPECT_EQ(engine_.calls[0]->option("do_sample"), "false");
  EXPECT_EQ(engine_.calls[0]->option("temperature"), "");
  EXPECT_EQ(engine_.calls[0]->request.client, "127.0.0.1");
  engine_.calls[0]->say("xy");
  engine_.calls[0]->finish("length", /*cached_tokens=*/2);
  EXPECT_EQ(exchange->status(), 200);
  EXPECT_EQ(exchange->json(), Document::parse(R"({"id": "cmpl-r1", "object": "text_completion", "created": 1000,
    "model": "tiny",
    "choices": [{"index": 0, "text": "xy", "logprobs": null, "finish_reason": "length"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5,
              "prompt_tokens_details": {"cached_tokens": 2}, "completion_tokens_details": {"reasoning_tokens": 0}}})"));
}

TEST_F(Completions, TakeTextsListsOfIdsAndBothMixed) {
  complete({{"prompt", {1, 2, 3}}});
  complete({{"prompt", {"a", {7, 8}}}, {"add_special_tokens", false}});
  ASSERT_EQ(engine_.calls.size(), 3u);
  EXPECT_THAT(engine_.calls[0]->request.ids, ElementsAre(1, 2, 3));
  EXPECT_THAT(engine_.calls[1]->request.ids, ElementsAre('a'));
  EXPECT_THAT(engine_.calls[2]->request.ids, ElementsAre(7, 8));
}

TEST_F(Completions, NumberChoicesByPromptThenByAnswer) {
  const auto exchange = complete({{"prompt", {"a", "b"}}, {"n", 2}, {"seed", 5}});
  ASSERT_EQ(engine_.calls.size(), 4u);
  for (const size_t i : {3, 0, 2, 1}) {
    engine_.calls[i]->say(std::string(1, static_cast<char>('0' + i)));
    engine_.calls[i]->finish("eos", 1);
  }
  const Document answer = exchange->json();
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(answer["choices"][i]["index"], i);
    EXPECT_EQ(answer["choices"][i]["text"], std::string(1, static_cast<char>('0' + i)));
  }
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 4);  // each prompt once
  EXPECT_EQ(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 2);
}

TEST_F(Completions, DrawTheAnswersOfOneSeedFromDifferentNumbersThatAPromptKeepsInAnyList) {
  complete({{"prompt", "a"}, {"n", 2}, {"seed", 5}});
  complete({{"prompt", {"b", "a"}}, {"n", 2}, {"seed", 5}});
  EXPECT_EQ(engine_.calls[0]->option("seed"), "5");
  EXPECT_EQ(engine_.calls[1]->option("seed"), "5");
  EXPECT_NE(engine_.calls[0]->request.random_row, engine_.calls[1]->request.random_row);
  EXPECT_EQ(engine_.calls[4]->request.random_row, engine_.calls[0]->request.random_row);
  EXPECT_EQ(engine_.calls[5]->request.random_row, engine_.calls[1]->request.random_row);
}

TEST_F(Completions, PassSamplingFieldsOnUnderTheEnginesNames) {
  complete(Document::parse(R"({"prompt": "a", "temperature": 0.5, "top_p": 0.9, "top_k": 4, "min_p": 0.1, "seed": 3,
    "presence_penalty": 0.5, "frequency_penalty": -1, "repetition_penalty": 1.5, "min_tokens": 2,
    "logit_bias": {"97": -100, "98": 1.5, "99": 0}, "stop": ["x", "→", "zz", "q", "five"],
    "stop_token_ids": [9], "regex": "a+"})"));
  const FakeCall& call = *engine_.calls.at(0);
  EXPECT_EQ(call.option("do_sample"), "true");
  EXPECT_EQ(call.option("temperature"), "0.5");
  EXPECT_EQ(call.option("top_p"), "0.9");
  EXPECT_EQ(call.option("top_k"), "4");
  EXPECT_EQ(call.option("min_p"), "0.1");
  EXPECT_EQ(call.option("seed"), "3");
  EXPECT_EQ(call.option("presence_penalty"), "0.5");
  EXPECT_EQ(call.option("frequency_penalty"), "-1");
  EXPECT_EQ(call.option("repetition_penalty"), "1.5");
  EXPECT_EQ(call.option("min_new_tokens"), "2");
  EXPECT_EQ(call.option("sequence_bias"), "[[[97],-100.0],[[98],1.5]]");
  EXPECT_EQ(call.option("stop_strings"), R"(["x","→","zz","q","five"])");
  EXPECT_EQ(call.option("eos_token_id"), "[9,257]");
  EXPECT_EQ(call.request.constraint, R"({"type":"regex","pattern":"a+"})");
}

TEST_F(Completions, DrawAtRandomFromAllTokensWhenTheBodySaysNothing) {
  complete({{"prompt", "a"}});
  EXPECT_EQ(engine_.calls[0]->option("do_sample"), "true");
  EXPECT_EQ(engine_.calls[0]->option("temperature"), "");
  EXPECT_EQ(engine_.calls[0]->option("top_k"), "0");
  EXPECT_EQ(engine_.calls[0]->option("seed"), "99");
  EXPECT_EQ(engine_.calls[0]->option("max_new_tokens"), "16");
}

TEST_F(Completions, KeepTheModelsOwnTopK) {
  write_file("generation_config.json", R"({"eos_token_id": [257, 3], "top_k": 20})");
  restart();
  complete({{"prompt", "a"}, {"ignore_eos", true}});
  complete({{"prompt", "a"}, {"stop_token_ids", {5}}});
  EXPECT_EQ(engine_.calls[0]->option("top_k"), "");
  EXPECT_EQ(engine_.calls[0]->option("eos_token_id"), "[]");
  EXPECT_EQ(engine_.calls[1]->option("eos_token_id"), "[5,257,3]");
}

TEST_F(Completions, TreatNullAsAbsentInEveryField) {
  const auto exchange = complete(Document::parse(R"({"prompt": "a", "model": null, "max_tokens": null, "n": null,
    "best_of": null, "temperature": null, "top_p": null, "top_k": null, "stop": null, "seed": null, "stream": null,
    "stream_options": null, "logprobs": null, "echo": null, "logit_bias": null, "presence_penalty": null,
    "suffix": null, "user": null, "response_format": null, "stop_token_ids": null, "ignore_eos": null,
    "structured_outputs": null, "priority": null, "best_thing": null})"));
  ASSERT_EQ(engine_.calls.size(), 1u) << exchange->response->body;
}

TEST_F(Completions, GoFirstWithALowerPriorityInEveryProtocol) {
  complete({{"prompt", "a"}, {"priority", -3}});
  chat({{"messages", user_says("a")}, {"priority", 2}});
  post("/v1/messages", {{"messages", user_says("a")}, {"max_tokens", 1}, {"priority", 1}});
  post("/v1/responses", {{"input", "a"}});
  std::vector<int> priorities;  // of the engine, where a higher one goes first
  for (const auto& call : engine_.calls) priorities.push_back(call->request.priority);
  EXPECT_THAT(priorities, ::testing::ElementsAre(3, -2, -1, 0));
  EXPECT_EQ(complete({{"prompt", "a"}, {"priority", "high"}})->json()["error"]["param"], "priority");
}

TEST_F(Completions, IgnoreNamesThatNoProtocolHasAndThoseThatAskNothing) {
  complete({{"prompt", "a"}, {"frobnicate", 1}, {"user", "u"}, {"store", true}, {"metadata", {{"a", "b"}}}});
  EXPECT_EQ(engine_.calls.size(), 1u);
}

TEST_F(Completions, KeepTheBestAnswersPerToken) {
  const auto exchange = complete({{"prompt", "a"}, {"best_of", 3}, {"n", 2}});
  ASSERT_EQ(engine_.calls.size(), 3u);
  const float logprobs[] = {-2.0f, -0.5f, -1.0f};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(engine_.calls[i]->request.model_logprobs, 0);
    engine_.calls[i]->logprob = logprobs[i];
    engine_.calls[i]->say(std::string(3 - i, static_cast<char>('0' + i)));
    engine_.calls[i]->finish("eos");
  }
  const Document answer = exchange->json();
  ASSERT_EQ(answer["choices"].size(), 2u);
  EXPECT_EQ(answer["choices"][0]["text"], "11");
  EXPECT_EQ(answer["choices"][1]["text"], "2");
  EXPECT_EQ(answer["choices"][1]["index"], 1);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 6);
}

// ---- log-probabilities ----------------------------------------------------------------------------------------------

TEST_F(Completions, GiveLogProbabilitiesWithTheChosenTokenAmongTheLikeliest) {
  const auto exchange = complete({{"prompt", "a"}, {"logprobs", 2}});
  engine_.calls[0]->say("c→");
  engine_.calls[0]->finish("length");
  EXPECT_EQ(exchange->json()["choices"][0]["logprobs"], Document::parse(R"({
    "tokens": ["c", "bytes:\\xe2", "bytes:\\x86", "bytes:\\x92"],
    "token_logprobs": [-0.5, -0.5, -0.5, -0.5],
    "top_logprobs": [{"c": -0.5, "b": -1.5}, {"bytes:\\xe2": -0.5, "bytes:\\xe1": -1.5},
                     {"bytes:\\x86": -0.5, "bytes:\\x85": -1.5}, {"bytes:\\x92": -0.5, "bytes:\\x91": -1.5}],
    "text_offset": [0, 1, 2, 2]})"));
}

TEST_F(Completions, EchoThePromptWithItsLogProbabilitiesAndNoNewToken) {
  const auto exchange = complete({{"prompt", "ab"}, {"echo", true}, {"logprobs", 1}, {"max_tokens", 0}});
  ASSERT_EQ(engine_.scores.size(), 1u);
  EXPECT_THAT(engine_.scores[0]->ids, ElementsAre(256, 'a', 'b'));
  engine_.give_score(0);
  EXPECT_TRUE(engine_.calls.empty());
  EXPECT_EQ(exchange->json()["choices"][0], Document::parse(R"({"index": 0, "text": "ab", "logprobs": {
    "tokens": ["<s>", "a", "b"], "token_logprobs": [null, -1.0, -2.0],
    "top_logprobs": [null, {"z": -0.25, "a": -1.0}, {"z": -0.25, "b": -2.0}], "text_offset": [0, 0, 1]},
    "finish_reason": "length"})"));
}

TEST_F(Completions, CountTheBlankOfATokenWhereTheTextHasIt) {
  write_file("tokenizer.json", text::kBlankTokenizer);
  restart();
  const auto echoed = complete({{"prompt", Document::array({text::kThe, text::kIs})}, {"echo", true}, {"logprobs", 0}});
  engine_.give_score(0);
  engine_.calls.at(0)->say_token(text::kParis, " Paris");
  engine_.calls.at(0)->say_token(text::kLetterA, "a");
  engine_.calls.at(0)->finish("length");
  EXPECT_EQ(echoed->json()["choices"][0]["text"], "the is Parisa");
  EXPECT_EQ(echoed->json()["choices"][0]["logprobs"]["text_offset"], Document::array({0, 3, 6, 12}));
  const auto begun = complete({{"prompt", Document::array({text::kBegin})}, {"logprobs", 0}});
  engine_.calls.at(1)->say_token(text::kParis, "Paris");
  engine_.calls.at(1)->say_token(text::kLetterA, "a");
  engine_.calls.at(1)->finish("length");
  EXPECT_EQ(begun->json()["choices"][0]["logprobs"]["text_offset"], Document::array({0, 5}));
}

TEST_F(Completions, GiveAHarnessOneEntryPerPromptTokenAndOneForTheNewTokenEvenWhenItEndsTheAnswer) {
  const auto exchange =
      complete(Document::parse(R"({"model": "tiny", "prompt": [[5, 6, 7], [8, 9]], "temperature": 0, "max_tokens": 1,
                                   "logprobs": 1, "seed": 1234, "echo": true})"));
  for (size_t prompt = 0; prompt < 2; ++prompt) {
    engine_.give_score(prompt);
    engine_.calls.at(prompt)->say_token(257, "");
    engine_.calls.at(prompt)->finish("eos");
  }
  const Document answer = exchange->json();
  const Document& first = answer["choices"][0]["logprobs"];
  EXPECT_EQ(first["token_logprobs"].size(), 4u);
  EXPECT_EQ(first["top_logprobs"].size(), 4u);
  EXPECT_EQ(first["tokens"][3], "</s>");
  EXPECT_EQ(answer["choices"][1]["logprobs"]["token_logprobs"].size(), 3u);
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
}

TEST_F(Completions, CountSpecialTokensInOffsetsWhereTheTextShowsThem) {
  const auto offsets = [&](bool skips) {
    const auto exchange = complete({{"prompt", "a"}, {"logprobs", 0}, {"skip_special_tokens", skips}});
    FakeCall& call = *engine_.calls.back();
    for (int i = 0; i < 2; ++i) call.say_token(258, skips ? "" : "<|turn|>");
    call.say("x");
    call.say_token(257, skips ? "" : "</s>");
    call.finish("length");
    return exchange->json()["choices"][0]["logprobs"]["text_offset"];
  };
  EXPECT_EQ(offsets(false), Document({0, 8, 16, 17}));
  EXPECT_EQ(offsets(true), Document({0, 0, 0, 1}));
}

/// lm-eval compares the two numbers for equality.
TEST_F(Completions, WriteALogProbabilityTheSameInBothLists) {
  const auto exchange = complete({{"prompt", "a"}, {"logprobs", 1}});
  engine_.calls[0]->logprob = -0.1234567f;
  engine_.calls[0]->say("x");
  engine_.calls[0]->finish("length");
  const std::string& body = exchange->response->body;
  const std::string number = exchange->json()["choices"][0]["logprobs"]["token_logprobs"][0].dump();
  EXPECT_THAT(body, HasSubstr("\"token_logprobs\":[" + number + "]"));
  EXPECT_THAT(body, HasSubstr("{\"x\":" + number + "}"));
}

TEST_F(Completions, EchoWithoutLogProbabilitiesNeedsNoScore) {
  const auto exchange = complete({{"prompt", {104, 105}}, {"echo", true}, {"max_tokens", 0}});
  EXPECT_TRUE(engine_.scores.empty());
  EXPECT_EQ(exchange->json()["choices"][0]["text"], "hi");
}

TEST_F(Completions, ReturnIdsOnRequest) {
  const auto exchange = complete({{"prompt", "a"}, {"return_token_ids", true}});
  engine_.calls[0]->say("x");
  engine_.calls[0]->say_token(257, "");
  engine_.calls[0]->finish("eos");
  const Document choice = exchange->json()["choices"][0];
  EXPECT_EQ(choice["prompt_token_ids"], Document({256, 97}));
  EXPECT_EQ(choice["token_ids"], Document({120, 257}));
}

}  // namespace
}  // namespace lockstep::serve
