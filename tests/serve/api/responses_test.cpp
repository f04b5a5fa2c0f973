#include "tests/serve/api/named_events.h"

namespace lockstep::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class Responses : public NamedEventsTest {
 protected:
  std::shared_ptr<FakeExchange> respond(const Document& body) { return post("/v1/responses", body); }
};

const Document kTool = {{"type", "function"},
                        {"name", "add"},
                        {"description", "adds"},
                        {"parameters", {{"type", "object"}, {"properties", {{"a", {{"type", "number"}}}}}}}};

TEST_F(Responses, ShowAToolWithAllKeys) {
  respond({{"input", "hi"}, {"tools", {{{"type", "function"}, {"name", "add"}, {"strict", true}}}}});
  EXPECT_THAT(prompt(),
              HasSubstr(R"({"type": "function", "function": {"name": "add", "description": "", "parameters": )"
                        R"({"type": "object", "properties": {}}}})"));
}

TEST_F(Responses, AnswerATextWithAMessage) {
  const auto exchange = respond({{"model", "tiny"}, {"input", "hi"}, {"instructions", "be kind"}});
  EXPECT_EQ(prompt(), "|system:be kind|user:hi|assistant:");
  engine_.calls[0]->say("yes");
  engine_.calls[0]->finish("eos", /*cached_tokens=*/5);
  const Document answer = exchange->json();
  EXPECT_EQ(answer["id"], "resp_r1");
  EXPECT_EQ(answer["object"], "response");
  EXPECT_EQ(answer["status"], "completed");
  EXPECT_EQ(answer["instructions"], "be kind");
  ASSERT_EQ(answer["output"].size(), 1u);
  EXPECT_EQ(answer["output"][0]["type"], "message");
  EXPECT_EQ(answer["output"][0]["content"][0]["text"], "yes");
  EXPECT_EQ(answer["output"][0]["content"][0]["annotations"], Document::array());
  EXPECT_EQ(answer["usage"]["input_tokens"], engine_.calls[0]->request.ids.size());
  EXPECT_EQ(answer["usage"]["input_tokens_details"]["cached_tokens"], 5);
  EXPECT_EQ(answer["usage"]["output_tokens"], 3);
  EXPECT_EQ(answer["usage"]["output_tokens_details"]["reasoning_tokens"], 0);
}

TEST_F(Responses, ReadTheItemsOfAnAgentsHistory) {
  const Document input = Document::array(
      {{{"type", "message"}, {"role", "developer"}, {"content", {{{"type", "input_text"}, {"text", "D"}}}}},
       {{"role", "user"}, {"content", "1+1?"}},
       {{"type", "reasoning"},
        {"summary", Document::array()},
        {"content", {{{"type", "reasoning_text"}, {"text", "R"}}}}},
       {{"type", "function_call"}, {"call_id", "c1"}, {"name", "add"}, {"arguments", "{\"a\": 1}"}},
       {{"type", "function_call_output"}, {"call_id", "c1"}, {"output", "2"}},
       {{"type", "message"}, {"role", "assistant"}, {"content", {{{"type", "output_text"}, {"text", "two"}}}}},
       {{"role", "user"}, {"content", "ok"}}});
  respond({{"input", input}, {"instructions", "I"}});
  EXPECT_EQ(prompt(),
            "|system:I\n\nD|user:1+1?|assistant:<think>R</think><tool_call>{\"name\": \"add\", \"arguments\": "
            "{\"a\": 1}}</tool_call>|tool:2|assistant:two|user:ok|assistant:");
}

TEST_F(Responses, KeepUserMessagesInARowApart) {
  respond({{"input", Document::array({{{"role", "user"}, {"content", "a"}}, {{"role", "user"}, {"content", "b"}}})}});
  EXPECT_EQ(prompt(), "|user:a|user:b|assistant:");
}

TEST_F(Responses, StreamEventsInTheDocumentedOrder) {
  const auto exchange = respond({{"input", "hi"}, {"stream", true}});
  engine_.calls[0]->say("yes");
  engine_.calls[0]->finish("eos");
  const auto events = named_events(*exchange);
  EXPECT_THAT(types_of(events),
              ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                          "response.content_part.added", "response.output_text.delta", "response.output_text.done",
                          "response.content_part.done", "response.output_item.done", "response.completed"));
  for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i]["sequence_number"], i);
  EXPECT_EQ(events[0]["response"]["status"], "in_progress");
  EXPECT_EQ(events[2]["item"]["content"], Document::array());
  EXPECT_EQ(events[4]["delta"], "yes");
  EXPECT_EQ(events[4]["item_id"], events[2]["item"]["id"]);
  EXPECT_EQ(events[5]["text"], "yes");
  EXPECT_EQ(events[8]["response"]["output"], Document::array({events[7]["item"]}));
  EXPECT_EQ(events[8]["response"]["usage"]["output_tokens"], 3);
  EXPECT_TRUE(exchange->is_ended);
}

TEST_F(Responses, StreamReasoningThenACall) {
  const auto exchange =
      respond({{"input", "hi"}, {"stream", true}, {"tools", Document::array({kTool, {{"type", "web_search"}}})}});
  engine_.calls[0]->say("<think>hm</think><tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}}</tool_call>");
  engine_.calls[0]->finish("eos");
  const auto events = named_events(*exchange);
  EXPECT_THAT(types_of(events),
              ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                          "response.content_part.added", "response.reasoning_text.delta",
                          "response.reasoning_text.done", "response.content_part.done", "response.output_item.done",
                          "response.output_item.added", "response.function_call_arguments.delta",
                          "response.function_call_arguments.done", "response.output_item.done", "response.completed"));
  EXPECT_EQ(events[7]["item"]["content"][0]["text"], "hm");
  EXPECT_EQ(events[8]["output_index"], 1);
  EXPECT_EQ(events[11]["item"]["name"], "add");
  EXPECT_EQ(events[11]["item"]["arguments"], "{\"a\": 1}");
  EXPECT_EQ(events[11]["item"]["call_id"], "call_r1_0");
  EXPECT_GT(events[12]["response"]["usage"]["output_tokens_details"]["reasoning_tokens"], 0);
}

TEST_F(Responses, GiveTheSameItemsWholeAndStreamed) {
  const std::string text = "<think>hm</think>Sure.<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>";
  Document body = {{"input", "hi"}, {"tools", Document::array({kTool})}};
  const auto whole = respond(body);
  body["stream"] = true;
  const auto streamed = respond(body);
  for (const auto& call : engine_.calls) {
    call->say(text);
    call->finish("eos");
  }
  EXPECT_EQ(whole->json()["output"].size(), 3u);
  EXPECT_EQ(whole->json()["output"], named_events(*streamed).back()["response"]["output"]);
}

TEST_F(Responses, AreIncompleteAtTheLength) {
  const auto exchange = respond({{"input", "hi"}, {"max_output_tokens", 1}, {"stream", true}});
  EXPECT_EQ(engine_.calls[0]->option("max_new_tokens"), "1");
  engine_.calls[0]->say("y");
  engine_.calls[0]->finish("length");
  const Document last = named_events(*exchange).back();
  EXPECT_EQ(last["type"], "response.incomplete");
  EXPECT_EQ(last["response"]["status"], "incomplete");
  EXPECT_EQ(last["response"]["incomplete_details"]["reason"], "max_output_tokens");
}

TEST_F(Responses, FailInsideTheStream) {
  const auto exchange = respond({{"input", "hi"}, {"stream", true}});
  engine_.calls[0]->say("y");
  engine_.calls[0]->fail({ErrorKind::kPeerLost, "rank 1 is gone"});
  const Document last = named_events(*exchange).back();
  EXPECT_EQ(last["type"], "response.failed");
  EXPECT_EQ(last["response"]["error"]["message"], "rank 1 is gone");
  EXPECT_TRUE(exchange->is_ended);
}

TEST_F(Responses, ConstrainTheTextByASchema) {
  const Document schema = {{"type", "object"}};
  respond({{"input", "hi"},
           {"text", {{"format", {{"type", "json_schema"}, {"name", "x"}, {"schema", schema}, {"strict", true}}}}}});
  EXPECT_THAT(engine_.calls[0]->request.constraint, HasSubstr("json_schema"));
  respond({{"input", "hi"}, {"text", {{"format", {{"type", "text"}}}, {"verbosity", "low"}}}});
  EXPECT_EQ(engine_.calls[1]->request.constraint, "");
}

TEST_F(Responses, RequireACallOfTheNamedFunction) {
  respond({{"input", "hi"}, {"tools", {kTool}}, {"tool_choice", {{"type", "function"}, {"name", "add"}}}});
  EXPECT_THAT(engine_.calls[0]->request.constraint, HasSubstr("\\\"add\\\""));
  const auto refused =
      respond({{"input", "hi"}, {"tools", {kTool}}, {"tool_choice", {{"type", "function"}, {"name", "x"}}}});
  EXPECT_EQ(refused->status(), 400);
}

TEST_F(Responses, AnswerAnEmptyInput) {
  const auto exchange = respond({{"input", Document::array()}, {"max_output_tokens", 1}});
  engine_.calls[0]->finish("eos");
  EXPECT_EQ(exchange->json()["output"][0]["content"][0]["text"], "");
}

TEST_F(Responses, RefuseWhatNeedsAStore) {
  const Document fields = {
      {"previous_response_id", "resp_1"}, {"background", true}, {"conversation", "conv_1"}, {"prompt", {{"id", "p"}}}};
  for (const auto& [name, value] : fields.items()) {
    Document body = {{"input", "hi"}};
    body[name] = value;
    const auto exchange = respond(body);
    EXPECT_EQ(exchange->status(), 400) << name;
    EXPECT_EQ(exchange->json()["error"]["param"], name);
  }
  respond({{"input", "hi"}, {"store", true}, {"previous_response_id", nullptr}, {"background", false}});
  EXPECT_EQ(engine_.calls.size(), 1u);
}

TEST_F(Responses, NameTheFieldThatDoesNotFit) {
  const auto error = [&](const Document& body) { return respond(body)->json()["error"]["message"].get<std::string>(); };
  EXPECT_THAT(error({{"input", 3}}), HasSubstr("input"));
  EXPECT_THAT(error({{"input", {{{"type", "item_reference"}, {"id", "x"}}}}}), HasSubstr("item_reference"));
  EXPECT_THAT(error({{"input", {{{"role", "user"}, {"content", {{{"type", "input_image"}}}}}}}}),
              HasSubstr("input[0].content[0].type"));
  EXPECT_THAT(error({{"input", "hi"}, {"temperature", "hot"}}), HasSubstr("temperature"));
  EXPECT_TRUE(engine_.calls.empty());
}

}  // namespace
}  // namespace lockstep::serve
