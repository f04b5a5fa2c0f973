#include "tests/serve/api/named_events.h"

namespace lockstep::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class Messages : public NamedEventsTest {
 protected:
  std::shared_ptr<FakeExchange> message(Document body) {
    if (!body.contains("max_tokens")) body["max_tokens"] = 50;
    if (!body.contains("messages")) body["messages"] = user_says("hi");
    return post("/v1/messages", body);
  }
};

const Document kTool = {{"name", "add"},
                        {"description", "adds"},
                        {"input_schema", {{"type", "object"}, {"properties", {{"a", {{"type", "number"}}}}}}}};

TEST_F(Messages, AnswerWithATextBlock) {
  const auto exchange =
      message({{"model", "tiny"},
               {"system", {{{"type", "text"}, {"text", "be kind"}, {"cache_control", {{"type", "ephemeral"}}}}}}});
  EXPECT_EQ(prompt(), "|system:be kind|user:hi|assistant:");
  engine_.calls[0]->say("yes");
  engine_.calls[0]->finish("eos");
  EXPECT_EQ(exchange->json(),
            Document::parse(R"({"id": "msg_r1", "type": "message", "role": "assistant", "model": "tiny",
              "content": [{"type": "text", "text": "yes", "citations": null}], "stop_reason": "end_turn",
              "stop_sequence": null, "stop_details": null, "container": null,
              "usage": {"input_tokens": 34, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
              "output_tokens": 3, "service_tier": "standard", "cache_creation": null, "inference_geo": null,
              "output_tokens_details": null, "server_tool_use": null}})"));
}

TEST_F(Messages, ReadTheBlocksOfAnAgentsHistory) {
  const Document turns = Document::array(
      {{{"role", "user"}, {"content", {{{"type", "text"}, {"text", "1+1?"}}}}},
       {{"role", "assistant"},
        {"content",
         {{{"type", "thinking"}, {"thinking", "R"}, {"signature", ""}},
          {{"type", "text"}, {"text", "T"}},
          {{"type", "tool_use"}, {"id", "c1"}, {"name", "add"}, {"input", {{"a", 1}}}}}}},
       {{"role", "user"},
        {"content",
         {{{"type", "tool_result"}, {"tool_use_id", "c1"}, {"content", {{{"type", "text"}, {"text", "2"}}}}},
          {{"type", "text"}, {"text", "ok"}}}}}});
  message({{"messages", turns}});
  EXPECT_EQ(
      prompt(),
      "|user:1+1?|assistant:<think>R</think>T<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}}</tool_call>"
      "|tool:2|user:ok|assistant:");
}

// Counts turns as the templates of Mistral's models do.
constexpr std::string_view kAlternatingTemplate =
    "{% set ns = namespace(index=0) %}{% for m in messages %}{% if m.role != 'tool' and not m.tool_calls %}"
    "{% if (m.role == 'user') != (ns.index % 2 == 0) %}"
    "{{ raise_exception('conversation roles must alternate') }}{% endif %}"
    "{% set ns.index = ns.index + 1 %}{% endif %}<|turn|>{{ m.role }}:{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant:{% endif %}";

TEST_F(Messages, JoinUserMessagesInARow) {
  const Document turns = Document::array({{{"role", "user"}, {"content", "a"}},
                                          {{"role", "user"}, {"content", {{{"type", "text"}, {"text", "b"}}}}},
                                          {{"role", "assistant"}, {"content", "c"}},
                                          {{"role", "user"}, {"content", "d"}}});
  message({{"messages", turns}});
  ASSERT_EQ(engine_.calls.size(), 1u);
  EXPECT_EQ(prompt(), "|user:a\nb|assistant:c|user:d|assistant:");
  write_file("chat_template.jinja", kAlternatingTemplate);
  restart();
  EXPECT_FALSE(message({{"messages", turns}})->response);
  EXPECT_EQ(prompt(), "|user:a\nb|assistant:c|user:d|assistant:");
}

TEST_F(Messages, JoinTextToTheResultBeforeItWhereTheTemplateDemandsTurnsThatAlternate) {
  write_file("chat_template.jinja", kAlternatingTemplate);
  restart();
  const Document call = {{"type", "tool_use"}, {"id", "c1"}, {"name", "add"}, {"input", Document::object()}};
  const Document result = {{"type", "tool_result"}, {"tool_use_id", "c1"}, {"content", "2"}};
  const Document text = {{"type", "text"}, {"text", "ok"}};
  for (const Document& last : {Document::array({{{"role", "user"}, {"content", Document::array({result, text})}}}),
                               Document::array({{{"role", "user"}, {"content", Document::array({result})}},
                                                {{"role", "user"}, {"content", "ok"}}})}) {
    Document turns = user_says("1+1?");
    turns.push_back({{"role", "assistant"}, {"content", Document::array({call})}});
    for (const Document& turn : last) turns.push_back(turn);
    const auto exchange = message({{"messages", turns}});
    ASSERT_FALSE(exchange->response) << exchange->response->body;
    EXPECT_EQ(prompt(), "|user:1+1?|assistant:|tool:2\nok|assistant:");
  }
}

TEST_F(Messages, StreamBlocksWithUsageAtBothEnds) {
  const auto exchange = message({{"stream", true}});
  engine_.calls[0]->say("yes");
  engine_.calls[0]->finish("eos");
  const auto events = named_events(*exchange);
  EXPECT_THAT(types_of(events), ElementsAre("message_start", "ping", "content_block_start", "content_block_delta",
                                            "content_block_stop", "message_delta", "message_stop"));
  EXPECT_EQ(events[0]["message"]["usage"]["input_tokens"], engine_.calls[0]->request.ids.size());
  EXPECT_TRUE(events[0]["message"]["stop_reason"].is_null());
  EXPECT_EQ(events[3]["delta"], Document({{"type", "text_delta"}, {"text", "yes"}}));
  EXPECT_EQ(events[5]["delta"]["stop_reason"], "end_turn");
  EXPECT_EQ(events[5]["usage"]["output_tokens"], 3);
}

TEST_F(Messages, StreamThinkingThenCalls) {
  const auto exchange =
      message({{"stream", true}, {"tools", Document::array({kTool, {{"type", "web_search_1"}, {"name", "w"}}})}});
  EXPECT_THAT(prompt(), Not(HasSubstr("\"w\"")));
  engine_.calls[0]->say("<think>hm</think><tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}}</tool_call>");
  engine_.calls[0]->finish("eos");
  const auto events = named_events(*exchange);
  EXPECT_THAT(types_of(events),
              ElementsAre("message_start", "ping", "content_block_start", "content_block_delta", "content_block_delta",
                          "content_block_stop", "content_block_start", "content_block_delta", "content_block_stop",
                          "message_delta", "message_stop"));
  EXPECT_EQ(events[3]["delta"]["thinking"], "hm");
  EXPECT_EQ(events[4]["delta"]["type"], "signature_delta");
  EXPECT_EQ(events[6]["index"], 1);
  EXPECT_EQ(events[6]["content_block"],
            Document({{"type", "tool_use"}, {"id", "toolu_r1_0"}, {"name", "add"}, {"input", Document::object()}}));
  EXPECT_EQ(events[7]["delta"], Document({{"type", "input_json_delta"}, {"partial_json", "{\"a\": 1}"}}));
  EXPECT_EQ(events[9]["delta"]["stop_reason"], "tool_use");
}

TEST_F(Messages, ShowAToolInTheFormOfAChat) {
  message({{"tools", Document::array({kTool})}});
  EXPECT_THAT(prompt(),
              HasSubstr(R"({"type": "function", "function": {"name": "add", "description": "adds", "parameters": )"
                        R"({"type": "object", "properties": {"a": {"type": "number"}}}}})"));
}

TEST_F(Messages, GiveTheInputOfACallAsAnObject) {
  const auto exchange = message({{"tools", Document::array({kTool})}});
  engine_.calls[0]->say("<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}}</tool_call>");
  engine_.calls[0]->finish("eos");
  EXPECT_EQ(exchange->json()["content"][0]["input"], Document({{"a", 1}}));
  EXPECT_EQ(exchange->json()["stop_reason"], "tool_use");
}

TEST_F(Messages, SayWhichStopSequenceEndedTheAnswer) {
  const auto exchange = message({{"stop_sequences", {"END", "no"}}});
  EXPECT_EQ(engine_.calls[0]->option("stop_strings"), R"(["END","no"])");
  engine_.calls[0]->say("a ");
  for (const char byte : std::string_view("noEND")) engine_.calls[0]->say_token(byte, "");  // not shown
  engine_.calls[0]->finish(EngineAnswer{.reason = "stop", .stop_string = "END"});
  EXPECT_EQ(exchange->json()["stop_reason"], "stop_sequence");
  EXPECT_EQ(exchange->json()["stop_sequence"], "END");
  const auto ended = message({{"stop_sequences", {"END"}}});
  engine_.calls[1]->say("END");
  engine_.calls[1]->say_token(257, "");
  engine_.calls[1]->finish("eos");
  EXPECT_EQ(ended->json()["stop_reason"], "end_turn");
}

TEST_F(Messages, EndAtTheLengthWithMaxTokens) {
  const auto exchange = message({{"max_tokens", 1}});
  engine_.calls[0]->say("y");
  engine_.calls[0]->finish("length");
  EXPECT_EQ(exchange->json()["stop_reason"], "max_tokens");
}

TEST_F(Messages, ContinueTheAssistantsText) {
  const Document turns =
      Document::array({{{"role", "user"}, {"content", "a"}}, {{"role", "assistant"}, {"content", "b"}}});
  message({{"messages", turns}});
  EXPECT_EQ(prompt(), "|user:a|assistant:b");
}

TEST_F(Messages, ChooseTools) {
  message({{"tools", {kTool}}, {"tool_choice", {{"type", "any"}, {"disable_parallel_tool_use", true}}}});
  EXPECT_THAT(engine_.calls[0]->request.constraint, HasSubstr("\"stop_after_first\":true"));
  message({{"tools", {kTool}}, {"tool_choice", {{"type", "none"}}}});
  EXPECT_EQ(engine_.calls[1]->request.constraint, "");
  EXPECT_EQ(message({{"tools", {kTool}}, {"tool_choice", {{"type", "tool"}, {"name", "x"}}}})->status(), 400);
}

TEST_F(Messages, TurnThinkingOff) {
  message({{"thinking", {{"type", "disabled"}}}});
  EXPECT_THAT(prompt(), HasSubstr("|quiet"));
  message({{"thinking", {{"type", "enabled"}, {"budget_tokens", 1024}}}});
  EXPECT_THAT(prompt(), Not(HasSubstr("|quiet")));
}

TEST_F(Messages, CountTokensAsTheAnswerDoes) {
  const auto counted = post("/v1/messages/count_tokens", {{"messages", user_says("hi")}, {"system", "s"}});
  message({{"system", "s"}});
  EXPECT_EQ(counted->json(), Document({{"input_tokens", engine_.calls[0]->request.ids.size()}}));
}

TEST_F(Messages, RefuseInTheProtocolsForm) {
  const auto image = message({{"messages", {{{"role", "user"}, {"content", {{{"type", "image"}}}}}}}});
  EXPECT_EQ(image->status(), 400);
  EXPECT_EQ(image->json()["type"], "error");
  EXPECT_EQ(image->json()["error"]["type"], "invalid_request_error");
  EXPECT_THAT(image->json()["error"]["message"].get<std::string>(), HasSubstr("image"));
  EXPECT_EQ(message({{"model", "other"}})->json()["error"]["type"], "not_found_error");
  const auto unlimited = post("/v1/messages", {{"messages", user_says("hi")}});
  EXPECT_THAT(unlimited->json()["error"]["message"].get<std::string>(), HasSubstr("max_tokens"));
}

TEST_F(Messages, FailInsideTheStream) {
  const auto exchange = message({{"stream", true}});
  engine_.calls[0]->say("y");
  engine_.calls[0]->fail({ErrorKind::kPeerLost, "rank 1 is gone"});
  const Document last = named_events(*exchange).back();
  EXPECT_EQ(last, Document::parse(
                      R"({"type": "error", "error": {"type": "overloaded_error", "message": "rank 1 is gone"}})"));
}

}  // namespace
}  // namespace lockstep::serve
