#include "tests/serve/api/api_fixture.h"

namespace lockstep::serve {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Errors = ApiTest;

struct BadBody {
  const char* path;
  const char* fields;  // beside the prompt
  const char* param;
  const char* message;
};

constexpr BadBody kBad[] = {
    {"/v1/completions", R"("temperature": "hot")", "temperature", "found a text, expected a number"},
    {"/v1/completions", R"("temperature": -1)", "temperature", "found -1, expected 0 or more"},
    {"/v1/completions", R"("top_p": 0)", "top_p", "found 0, expected above 0 and at most 1"},
    {"/v1/completions", R"("n": 1.5)", "n", "found 1.5, expected a whole number"},
    {"/v1/completions", R"("n": 0)", "n", "found 0, expected 1 to"},
    {"/v1/completions", R"("n": true)", "n", "found true, expected a number"},
    {"/v1/completions", R"("stream": "yes")", "stream", "found a text, expected true or false"},
    {"/v1/completions", R"("stop": 5)", "stop", "found a number, expected a text or a list of texts"},
    {"/v1/completions", R"("stop": ["a", 5])", "stop[1]", "found a number, expected a text"},
    {"/v1/completions", R"("stop": "")", "stop", "found an empty text"},
    {"/v1/completions", R"("prompt": [])", "prompt", "expected a text, a list of token ids"},
    {"/v1/completions", R"("prompt": {"a": 1})", "prompt", "found an object"},
    {"/v1/completions", R"("prompt": [1, "a"])", "prompt[1]", "found a text, expected a number"},
    {"/v1/completions", R"("prompt": [1, 260])", "prompt[1]", "found 260, expected a token id from 0 to 259"},
    {"/v1/completions", R"("prompt": ["a", true])", "prompt[1]", "found true"},
    {"/v1/completions", R"("logit_bias": {"x": 1})", "logit_bias.x", "expected a token id"},
    {"/v1/completions", R"("logit_bias": {"1": 101})", "logit_bias.1", "expected -100 to 100"},
    {"/v1/completions", R"("logprobs": 21)", "logprobs", "found 21, expected 0 to 20"},
    {"/v1/completions", R"("max_tokens": 0)", "max_tokens", "found 0, expected 1 or more"},
    {"/v1/completions", R"("suffix": "end")", "suffix", "not supported"},
    {"/v1/completions", R"("prompt_logprobs": 2)", "prompt_logprobs", "not supported"},
    {"/v1/completions", R"("best_of": 1, "n": 2)", "best_of", "found 1, expected at least n, which is 2"},
    {"/v1/completions", R"("best_of": 2, "stream": true)", "best_of", "beside stream"},
    {"/v1/completions", R"("regex": "a", "choice": ["b"])", "choice", "found it beside regex"},
    {"/v1/completions", R"("response_format": {"type": "xml"})", "response_format.type", "found \"xml\""},
    {"/v1/completions", R"("response_format": {"type": "json_schema"})", "response_format.json_schema",
     "found nothing"},
    {"/v1/completions", R"("presence_penalty": 3)", "presence_penalty", "found 3, expected -2 to 2"},
    {"/v1/completions", R"("n": 1000, "prompt": ["a", "b"])", "n", "found 1000 answers to 2 prompts"},
    {"/v1/chat/completions", R"("messages": "hi")", "messages", "found a text, expected a list"},
    {"/v1/chat/completions", R"("messages": [])", "messages", "found 0 messages"},
    {"/v1/chat/completions", R"("messages": [{"role": 5}])", "messages[0].role", "found a number, expected a text"},
    {"/v1/chat/completions", R"("messages": [{"role": "king", "content": ""}])", "messages[0].role", "found \"king\""},
    {"/v1/chat/completions", R"("messages": [{"role": "user"}])", "messages[0].content", "found nothing"},
    {"/v1/chat/completions", R"("messages": [{"role": "user", "content": [{"type": "image_url"}]}])",
     "messages[0].content[0].type", "found \"image_url\", expected \"text\""},
    {"/v1/chat/completions", R"("top_logprobs": 2)", "top_logprobs", "without logprobs"},
    {"/v1/chat/completions", R"("functions": [{"name": "f"}])", "functions", "not supported"},
    {"/v1/chat/completions", R"("audio": {"voice": "x"})", "audio", "not supported"},
    {"/v1/chat/completions", R"("tool_choice": "required")", "tool_choice", "without tools"},
    {"/v1/chat/completions", R"("tool_choice": "sometimes")", "tool_choice", "found \"sometimes\""},
    {"/v1/chat/completions", R"("max_completion_tokens": 0)", "max_completion_tokens", "expected 1 or more"},
    {"/v1/chat/completions", R"("continue_final_message": true, "add_generation_prompt": true)",
     "continue_final_message", "beside add_generation_prompt"},
    {"/tokenize", R"("prompt": 5)", "prompt", "found a number, expected a text"},
    {"/detokenize", R"("tokens": "a")", "tokens", "found a text, expected a list of token ids"},
};

TEST_F(Errors, NameTheFieldWhatWasFoundAndWhatIsExpected) {
  for (const BadBody& bad : kBad) {
    Document body = {{"prompt", "a"}};
    if (std::string_view(bad.path).find("chat") != std::string_view::npos) body = {{"messages", user_says("a")}};
    body.update(Document::parse(std::string("{") + bad.fields + "}"));
    const auto exchange = post(bad.path, body);
    ASSERT_TRUE(exchange->response) << bad.fields;
    EXPECT_EQ(exchange->status(), 400) << bad.fields;
    const Document error = exchange->json()["error"];
    EXPECT_EQ(error["type"], "invalid_request_error") << bad.fields;
    EXPECT_EQ(error["param"], bad.param) << bad.fields;
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(bad.message)) << bad.fields;
  }
  EXPECT_TRUE(engine_.calls.empty());
  EXPECT_EQ(api_->open_requests(), 0u);
}

TEST_F(Errors, AcceptUnsupportedFieldsThatMeanOff) {
  complete(Document::parse(R"({"prompt": "a", "suffix": "", "use_beam_search": false, "length_penalty": 1.0,
                               "prompt_logprobs": null, "bad_words": []})"));
  chat(Document::parse(R"({"messages": [{"role": "user", "content": "a"}], "functions": [], "echo": false,
                           "modalities": ["text"], "verbosity": "medium", "function_call": "none"})"));
  EXPECT_EQ(engine_.calls.size(), 2u);
}

TEST_F(Errors, RefuseBodiesThatAreNoJsonObject) {
  for (const char* body : {"", "{", "[1]", "\"a\"", "{\"a\": 1e999}", "{\"prompt\": \"\xff\"}", "{} x"}) {
    const auto exchange = send("POST", "/v1/completions", body);
    EXPECT_EQ(exchange->status(), 400) << body;
    EXPECT_THAT(exchange->json()["error"]["message"].get<std::string>(), HasSubstr("expected a JSON object")) << body;
  }
}

TEST_F(Errors, RefuseHostileBodiesEarly) {
  EXPECT_EQ(send("POST", "/v1/completions", std::string(100000, '['))->status(), 400);
  std::string many = "{\"a\": 1";
  for (int i = 0; i < 3000; ++i) many += ",\"k" + std::to_string(i) + "\": 1";
  const auto exchange = send("POST", "/v1/completions", many + "}");
  EXPECT_THAT(exchange->json()["error"]["message"].get<std::string>(), HasSubstr("too many names in one object"));
}

TEST_F(Errors, GiveBothNumbersWhenTheContextIsTooShort) {
  const auto too_long = complete({{"prompt", std::vector<int>(71, 'a')}});
  EXPECT_EQ(too_long->status(), 400);
  EXPECT_EQ(too_long->json()["error"]["code"], "context_length_exceeded");
  EXPECT_THAT(too_long->json()["error"]["message"].get<std::string>(),
              AllOf(HasSubstr("maximum context length is 64"), HasSubstr("71 tokens in the prompt")));
  const auto asked = complete({{"prompt", "a"}, {"max_tokens", 63}});
  EXPECT_EQ(asked->json()["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(asked->json()["error"]["param"], "max_tokens");
  complete({{"prompt", "a"}, {"max_tokens", 62}});
  complete({{"prompt", std::string(60, 'a')}});  // the default length is shortened
  ASSERT_EQ(engine_.calls.size(), 2u);
  EXPECT_EQ(engine_.calls[1]->option("max_new_tokens"), "3");
}

TEST_F(Errors, CountATextNoFurtherThanTheContext) {
  const std::string full(63, 'a');  // with "<s>" all of the context
  EXPECT_THAT(complete({{"prompt", full}})->json()["error"]["message"].get<std::string>(),
              HasSubstr("64 tokens in the prompt"));
  for (const size_t bytes : {size_t{64}, size_t{100000}}) {
    for (const auto& exchange :
         {complete({{"prompt", std::string(bytes, 'a')}}), chat({{"messages", user_says(std::string(bytes, 'a'))}})}) {
      EXPECT_EQ(exchange->status(), 400);
      EXPECT_EQ(exchange->json()["error"]["code"], "context_length_exceeded");
      EXPECT_THAT(exchange->json()["error"]["message"].get<std::string>(),
                  AllOf(HasSubstr("maximum context length is 64"), HasSubstr("more than 64 tokens in the prompt")));
    }
  }
  EXPECT_EQ(post("/tokenize", {{"prompt", std::string(100, 'a')}})->json()["count"], 101);
}

TEST_F(Errors, KnowOneModel) {
  const auto exchange = complete({{"model", "other"}, {"prompt", "a"}});
  EXPECT_EQ(exchange->status(), 404);
  EXPECT_EQ(exchange->json()["error"]["code"], "model_not_found");
  EXPECT_THAT(exchange->json()["error"]["message"].get<std::string>(), HasSubstr("\"tiny\""));
}

TEST_F(Errors, RefuseOtherMethodsAndTypes) {
  const auto get = send("GET", "/v1/completions");
  EXPECT_EQ(get->status(), 405);
  EXPECT_THAT(get->response->headers, ::testing::Contains(std::pair<std::string, std::string>("Allow", "POST")));
  EXPECT_EQ(send("POST", "/v1/models", "{}")->status(), 405);
  auto form = std::make_shared<FakeExchange>();
  form->sent = {.method = "POST",
                .path = "/v1/completions",
                .headers = {{"content-type", "application/x-www-form-urlencoded"}},
                .body = "{}"};
  EXPECT_TRUE(api_->handle(form));
  EXPECT_EQ(form->status(), 415);
  form->sent.headers = {{"content-type", "Application/JSON; charset=utf-8"}};
  form->sent.body = R"({"prompt": "a"})";
  api_->handle(form);
  loop_.run();
  EXPECT_EQ(engine_.calls.size(), 1u);
}

TEST_F(Errors, RefuseBodiesThatAPageOfAnotherOriginCanSend) {
  const auto status_with = [&](const Headers& headers) {
    auto exchange = std::make_shared<FakeExchange>();
    exchange->sent = {.method = "POST", .path = "/v1/completions", .headers = headers, .body = R"({"prompt": "a"})"};
    api_->handle(exchange);
    loop_.run();
    return exchange->status();
  };
  for (const char* type : {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"}) {
    EXPECT_EQ(status_with({{"content-type", type}}), 415) << type;
  }
  EXPECT_EQ(status_with({{"origin", "http://page.example"}}), 415);
  EXPECT_EQ(status_with({{"sec-fetch-site", "cross-site"}}), 415);
  EXPECT_TRUE(engine_.calls.empty());
  status_with({});
  EXPECT_EQ(engine_.calls.size(), 1u);
}

TEST_F(Errors, LeaveUnknownPathsToOthers) {
  auto exchange = std::make_shared<FakeExchange>();
  exchange->sent = {.method = "GET", .path = "/health"};
  EXPECT_FALSE(api_->handle(exchange));
  EXPECT_FALSE(exchange->response);
}

TEST_F(Errors, TurnRequestsAwayWhenTheQueueIsFull) {
  options_.max_open = 2;
  restart();
  complete({{"prompt", "a"}, {"n", 2}});
  const auto refused = complete({{"prompt", "b"}});
  EXPECT_EQ(refused->status(), 429);
  EXPECT_EQ(refused->json()["error"]["code"], "queue_full");
  EXPECT_THAT(refused->response->headers, ::testing::Contains(std::pair<std::string, std::string>("Retry-After", "1")));
  for (const auto& call : engine_.calls) call->finish("eos");
  loop_.run();
  EXPECT_EQ(api_->open_sequences(), 0u);
  complete({{"prompt", "b"}});
  EXPECT_EQ(engine_.calls.size(), 3u);
}

TEST_F(Errors, TellWhatTheEngineSays) {
  const std::pair<ErrorKind, int> cases[] = {{ErrorKind::kInvalidArgument, 400},  {ErrorKind::kUnsupported, 400},
                                             {ErrorKind::kUnavailable, 503},      {ErrorKind::kPeerLost, 503},
                                             {ErrorKind::kDeadlineExceeded, 504}, {ErrorKind::kInternal, 500}};
  for (const auto& [kind, status] : cases) {
    const auto exchange = complete({{"prompt", "a"}, {"stream", true}});
    engine_.calls.back()->fail({kind, "[engine] rank 1: lost"});
    EXPECT_EQ(exchange->status(), status);
    EXPECT_EQ(exchange->json()["error"]["message"], "[engine] rank 1: lost");
    EXPECT_FALSE(exchange->head) << "an error before the first byte has a status";
    loop_.run();
  }
  EXPECT_EQ(api_->open_requests(), 0u);
}

}  // namespace
}  // namespace lockstep::serve
