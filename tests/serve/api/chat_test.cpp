#include <sstream>

#include "tests/serve/api/api_fixture.h"

namespace lockstep::serve {
namespace {

using ::testing::HasSubstr;
using Chat = ApiTest;

/// The prompt of a call as text.
std::string prompt_of(const FakeCall& call) {
  std::string text;
  for (const int32_t id : call.request.ids) {
    text += id == 258 ? "<|turn|>" : id == 256 ? "<s>" : std::string(1, static_cast<char>(id));
  }
  return text;
}

class LongChat : public ApiTest {
 protected:
  LongChat() {
    engine_.known.capacity = 4096;
    restart();
  }
};

TEST_F(Chat, AnswersInOpenAisForm) {
  const auto exchange = chat({{"messages", user_says("hi")}, {"max_completion_tokens", 5}});
  ASSERT_EQ(engine_.calls.size(), 1u);
  EXPECT_EQ(prompt_of(*engine_.calls[0]), "<|turn|>user:hi<|turn|>assistant:");
  engine_.calls[0]->say("yo");
  engine_.calls[0]->finish("eos");
  EXPECT_EQ(exchange->json(), Document::parse(R"({"id": "chatcmpl-r1", "object": "chat.completion", "created": 1000,
    "model": "tiny",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "yo", "refusal": null,
                 "annotations": []}, "logprobs": null,
                 "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 19, "completion_tokens": 2, "total_tokens": 21,
              "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 0}}})"));
}

TEST_F(Chat, RunsUntilTheCapacityWithoutALength) {
  chat({{"messages", user_says("hi")}});
  EXPECT_EQ(engine_.calls[0]->option("max_new_tokens"), "45");
}

TEST_F(LongChat, ReadsAllRolesAndContentInParts) {
  chat(Document::parse(R"({"messages": [
    {"role": "developer", "content": "be brief"},
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "bob"},
    {"role": "assistant", "content": null,
     "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"z\": 1, \"a\": 2}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "42"},
    {"role": "assistant", "content": "so"}]})"));
  ASSERT_EQ(engine_.calls.size(), 1u);
  EXPECT_EQ(prompt_of(*engine_.calls[0]),
            "<|turn|>system:be brief<|turn|>user:a\nb<|turn|>assistant:"
            "<tool_call>{\"name\": \"f\", \"arguments\": {\"z\": 1, \"a\": 2}}</tool_call>"
            "<|turn|>tool:42<|turn|>assistant:so<|turn|>assistant:");
}

TEST_F(LongChat, KeepsArgumentsThatAreNoJsonAsText) {
  chat(Document::parse(R"({"messages": [{"role": "assistant",
    "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{\"cut"}}]}]})"));
  ASSERT_EQ(engine_.calls.size(), 1u);
  EXPECT_THAT(prompt_of(*engine_.calls[0]), HasSubstr(R"("arguments": "{\"cut")"));
}

TEST_F(Chat, ContinuesTheLastMessage) {
  chat(Document::parse(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "Well, "}],
                           "continue_final_message": true, "add_generation_prompt": false})"));
  ASSERT_EQ(engine_.calls.size(), 1u);
  EXPECT_EQ(prompt_of(*engine_.calls[0]), "<|turn|>user:a<|turn|>assistant:Well, ");
}

TEST_F(Chat, ContinuesTheLastMessageWhereItEndsAlsoIfTheTemplatesEndHasItsWords) {
  constexpr const char* kTemplate =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ CONTENT }}<|im_end|>\n{% endfor %}";
  for (const bool trims : {false, true}) {
    std::string source = kTemplate;
    source.replace(source.find("CONTENT"), 7, trims ? "m.content | trim" : "m.content");
    write_file("chat_template.jinja", source);
    restart();
    for (const std::string content : {"<", "end", "im", "Well", " two\n\nlines"}) {
      for (const std::string blanks : {"", " ", "\n\n"}) {
        chat({{"messages", Document::array({{{"role", "assistant"}, {"content", content + blanks}}})},
              {"continue_final_message", true},
              {"add_generation_prompt", false}});
        const std::string shown = trims ? content.substr(content.find_first_not_of(' ')) : content + blanks;
        EXPECT_EQ(prompt_of(*engine_.calls.back()), "<|im_start|>assistant\n" + shown);
      }
    }
  }
}

TEST_F(Chat, RefusesToContinueAMessageWithoutTextOrOneThatTheTemplateDoesNotShow) {
  const auto continued = [&](const char* content) {
    return chat({{"messages", Document::array({{{"role", "assistant"}, {"content", content}}})},
                 {"continue_final_message", true},
                 {"add_generation_prompt", false}});
  };
  EXPECT_EQ(continued(" \n")->status(), 400);
  write_file("chat_template.jinja", "{% for m in messages %}{{ m.role }}{% endfor %}");
  restart();
  EXPECT_EQ(continued("a")->status(), 400);
  EXPECT_TRUE(engine_.calls.empty());
}

TEST_F(Chat, GivesVariablesToTheTemplate) {
  chat({{"messages", user_says("a")}, {"chat_template_kwargs", {{"mood", "calm"}, {"add_generation_prompt", false}}}});
  EXPECT_EQ(prompt_of(*engine_.calls[0]), "<|turn|>user:acalm");
}

TEST_F(Chat, GivesLogProbabilitiesWithBytes) {
  const auto exchange = chat({{"messages", user_says("a")}, {"logprobs", true}, {"top_logprobs", 1}});
  EXPECT_EQ(engine_.calls[0]->request.model_logprobs, 1);
  engine_.calls[0]->say("x");
  engine_.calls[0]->say_token(0xE2, "");
  engine_.calls[0]->finish("length");
  EXPECT_EQ(exchange->json()["choices"][0]["logprobs"], Document::parse(R"({"content": [
    {"token": "x", "logprob": -0.5, "bytes": [120],
     "top_logprobs": [{"token": "x", "logprob": -0.5, "bytes": [120]}]},
    {"token": "\ufffd", "logprob": -0.5, "bytes": [226],
     "top_logprobs": [{"token": "\ufffd", "logprob": -0.5, "bytes": [226]}]}]})"));
}

TEST_F(Chat, GivesLogProbabilitiesWithoutTopLogprobs) {
  const auto exchange = chat({{"messages", user_says("a")}, {"logprobs", true}});
  EXPECT_EQ(engine_.calls[0]->request.model_logprobs, 0);
  engine_.calls[0]->say("x");
  engine_.calls[0]->finish("length");
  EXPECT_EQ(exchange->json()["choices"][0]["logprobs"]["content"][0]["top_logprobs"], Document::array());
}

TEST_F(Chat, ConstrainsTheAnswerByItsFormat) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"response_format": {"type": "text"}})", ""},
      {R"({"response_format": {"type": "json_object"}})", R"({"type":"any_json"})"},
      {R"({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true,
           "schema": {"type": "object", "properties": {"z": {}, "a": {}}}}}})",
       R"({"type":"json_schema","json_schema":{"type":"object","properties":{"z":{},"a":{}}}})"},
      {R"({"choice": ["yes", "no"]})",
       R"({"type":"or","elements":[{"type":"const_string","value":"yes"},{"type":"const_string","value":"no"}]})"},
      {R"({"grammar": "root ::= \"a\""})", R"({"type":"grammar","grammar":"root ::= \"a\""})"},
      {R"({"guided_json": "{\"type\": \"object\"}"})", R"({"type":"json_schema","json_schema":{"type":"object"}})"},
      {R"({"guided_regex": "a|b"})", R"({"type":"regex","pattern":"a|b"})"},
      {R"({"structured_outputs": {"regex": "x"}})", R"({"type":"regex","pattern":"x"})"},
      {R"({"structured_outputs": {"json_object": false}})", ""},
  };
  for (const auto& [fields, constraint] : cases) {
    Document body = {{"messages", user_says("a")}};
    body.update(Document::parse(fields));
    const auto exchange = chat(body);
    ASSERT_FALSE(exchange->response) << exchange->response->body;
    EXPECT_EQ(engine_.calls.back()->request.constraint, constraint) << fields;
  }
}

// ---- tools ----------------------------------------------------------------------------------------------------------

const Document kTools = Document::parse(R"([
  {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}},
  {"type": "web_search"}])");

TEST_F(LongChat, ShowsToolsToTheTemplateUnlessNoneMayBeCalled) {
  chat({{"messages", user_says("a")}, {"tools", kTools}, {"tool_choice", "none"}});
  ASSERT_EQ(engine_.calls.size(), 1u);
  EXPECT_EQ(prompt_of(*engine_.calls[0]), "<|turn|>user:a<|turn|>assistant:");
  EXPECT_FALSE(engine_.calls[0]->request.special_text);
  chat({{"messages", user_says("a")}, {"tools", kTools}});
  ASSERT_EQ(engine_.calls.size(), 2u);
  EXPECT_THAT(prompt_of(*engine_.calls[1]),
              HasSubstr("tools:[{\"type\": \"function\", \"function\": {\"name\": \"add\""));
  EXPECT_TRUE(engine_.calls[1]->request.special_text);
}

/// As transformers' apply_chat_template does: with their own keys in their own order.
TEST_F(LongChat, ShowsToolsAsTheyWereSent) {
  const Document tools = Document::parse(R"([{"type": "function", "function": {"strict": true, "parameters":
    {"type": "object", "required": [], "properties": {}}, "name": "add"}, "note": null}, {"function": {"name": "b"}}])");
  chat({{"messages", user_says("a")}, {"tools", tools}});
  ASSERT_EQ(engine_.calls.size(), 1u);
  EXPECT_THAT(prompt_of(*engine_.calls[0]),
              HasSubstr("tools:[{\"type\": \"function\", \"function\": {\"strict\": true, \"parameters\": {\"type\": "
                        "\"object\", \"required\": [], \"properties\": {}}, \"name\": \"add\"}, \"note\": null}, "
                        "{\"function\": {\"name\": \"b\"}}]"));
}

TEST_F(LongChat, GivesCallsApartFromTheContent) {
  const auto exchange = chat({{"messages", user_says("a")}, {"tools", kTools}});
  ASSERT_EQ(engine_.calls.size(), 1u);
  engine_.calls[0]->say("<tool_call>{\"name\": \"add\", \"arguments\": {\"x\": 1}}</tool_call>");
  engine_.calls[0]->say_token(257, "</s>");
  engine_.calls[0]->finish("eos");
  const Document choice = exchange->json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"],
            Document::parse(R"({"role": "assistant", "content": null, "refusal": null, "annotations": [],
    "tool_calls": [{"id": "call_r1_0_0", "type": "function",
                    "function": {"name": "add", "arguments": "{\"x\": 1}"}}]})"));
}

TEST_F(LongChat, StreamsACallsNameOnceAndThenItsArguments) {
  const auto exchange = chat({{"messages", user_says("a")}, {"tools", kTools}, {"stream", true}});
  for (const char byte : std::string("<tool_call>{\"name\": \"add\", \"arguments\": {\"x\": 1}}</tool_call>")) {
    engine_.calls.at(0)->say(std::string(1, byte));
  }
  engine_.calls[0]->finish("eos");
  std::string arguments;
  size_t heads = 0;
  Document last;
  for (const Document& event : exchange->events()) {
    if (event.is_string()) continue;
    const Document& choice = event["choices"][0];
    if (!choice["finish_reason"].is_null()) last = choice;
    if (!choice["delta"].contains("tool_calls")) continue;
    const Document& call = choice["delta"]["tool_calls"][0];
    EXPECT_EQ(call["index"], 0);
    if (call.contains("id")) {
      EXPECT_EQ(++heads, 1u);
      EXPECT_EQ(call["id"], "call_r1_0_0");
      EXPECT_EQ(call["type"], "function");
      EXPECT_EQ(call["function"]["name"], "add");
    } else {
      EXPECT_FALSE(call.contains("type"));
      EXPECT_FALSE(call["function"].contains("name"));
    }
    arguments += call["function"]["arguments"].get<std::string>();
  }
  EXPECT_EQ(heads, 1u);
  EXPECT_EQ(arguments, "{\"x\": 1}");
  EXPECT_EQ(last["finish_reason"], "tool_calls");
  EXPECT_EQ(last["delta"], Document::object());
}

TEST_F(LongChat, ConstrainsRequiredAndNamedCalls) {
  chat({{"messages", user_says("a")}, {"tools", kTools}, {"tool_choice", "required"}});
  chat({{"messages", user_says("a")},
        {"tools", kTools},
        {"tool_choice", {{"type", "function"}, {"function", {{"name", "add"}}}}}});
  ASSERT_EQ(engine_.calls.size(), 2u);
  EXPECT_THAT(engine_.calls[0]->request.constraint, HasSubstr("add"));
  EXPECT_THAT(engine_.calls[1]->request.constraint, HasSubstr("add"));
  const auto refused = chat({{"messages", user_says("a")},
                             {"tools", kTools},
                             {"tool_choice", {{"type", "function"}, {"function", {{"name", "sub"}}}}}});
  EXPECT_EQ(refused->status(), 400);
  EXPECT_EQ(refused->json()["error"]["param"], "tool_choice.function.name");
}

TEST_F(LongChat, AllowsEitherACallOrTheFormat) {
  chat({{"messages", user_says("a")}, {"tools", kTools}, {"response_format", {{"type", "json_object"}}}});
  ASSERT_EQ(engine_.calls.size(), 1u);
  const Document constraint = Document::parse(engine_.calls[0]->request.constraint);
  EXPECT_EQ(constraint["type"], "or");
  EXPECT_EQ(constraint["elements"][0], Document({{"type", "any_json"}}));
}

TEST_F(LongChat, TakesTheTemplateForToolsWhereThereAreSome) {
  const Document templates =
      Document::array({{{"name", "default"}, {"template", "<|turn|>{{ messages[0].content }}"}},
                       {{"name", "tool_use"}, {"template", "{# <tool_call> #}<|turn|>{{ tools[0].function.name }}"}}});
  write_file("tokenizer_config.json", Document{{"chat_template", templates}}.dump());
  restart();
  chat({{"messages", user_says("a")}});
  chat({{"messages", user_says("a")}, {"tools", kTools}});
  chat({{"messages", user_says("a")}, {"tools", kTools}, {"tool_choice", "none"}});
  ASSERT_EQ(engine_.calls.size(), 3u);
  EXPECT_EQ(prompt_of(*engine_.calls[0]), "<|turn|>a");
  EXPECT_EQ(prompt_of(*engine_.calls[1]), "<|turn|>add");
  EXPECT_EQ(prompt_of(*engine_.calls[2]), "<|turn|>a");
}

TEST_F(LongChat, GivesReasoningApartFromTheContent) {
  write_file("chat_template.jinja",
             "{% for m in messages %}<|turn|>{{ m.role }}:{{ m.content }}{% endfor %}"
             "{% if add_generation_prompt %}<|turn|>assistant:<think>\n{% endif %}{# </think> #}"
             "{% if false %}{{ '</think>' }}{% endif %}");
  restart();
  const auto exchange = chat({{"messages", user_says("a")}});
  engine_.calls.at(0)->say("because</think>yes");
  engine_.calls[0]->finish("eos");
  const Document message = exchange->json()["choices"][0]["message"];
  EXPECT_EQ(message["content"], "yes");
  EXPECT_EQ(message["reasoning_content"], "because");
  EXPECT_GT(exchange->json()["usage"]["completion_tokens_details"]["reasoning_tokens"].get<int>(), 0);
}

// Checks ids as the templates of Mistral-7B-Instruct-v0.3 and Nemo do.
constexpr std::string_view kMistralTemplate =
    "{# [TOOL_CALLS] #}{% for m in messages %}"
    "{% for c in m.tool_calls or [] %}"
    "{% if c.id is not defined or c.id|length != 9 %}"
    "{{ raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{% endif %}"
    "<|turn|>call:{{ c.id }}{% endfor %}"
    "{% if m.role == 'tool' %}{% if m.tool_call_id is not defined or m.tool_call_id|length != 9 %}"
    "{{ raise_exception('Tool call IDs should be alphanumeric strings with length 9!') }}{% endif %}"
    "<|turn|>result:{{ m.tool_call_id }}{% endif %}{% endfor %}";

TEST_F(LongChat, GivesAMistralTemplateIdsOfCallsThatItAccepts) {
  write_file("chat_template.jinja", kMistralTemplate);
  restart();
  const auto ids_in_prompt = [&](const std::vector<std::string>& ids) {
    Document calls = Document::array();
    Document turns = user_says("a");
    for (const std::string& id : ids) calls.push_back({{"id", id}, {"function", {{"name", "f"}}}});
    turns.push_back({{"role", "assistant"}, {"tool_calls", calls}});
    for (const std::string& id : ids) turns.push_back({{"role", "tool"}, {"tool_call_id", id}, {"content", "1"}});
    const auto exchange = chat({{"messages", turns}});
    std::vector<std::string> shown;
    if (exchange->response) {
      ADD_FAILURE() << exchange->response->body;
      return shown;
    }
    std::istringstream prompt(prompt_of(*engine_.calls.back()));
    for (std::string part; std::getline(prompt, part, ':');) shown.push_back(part.substr(0, part.find('<')));
    shown.erase(shown.begin());  // before the first colon is no id
    return shown;
  };
  const auto shown = ids_in_prompt({"call_req_7eb0_0_0", "toolu_01A", "abcDEF123", "with-dash"});
  ASSERT_EQ(shown.size(), 8u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_THAT(shown[i], ::testing::MatchesRegex("[0-9A-Za-z]{9}"));
    EXPECT_EQ(shown[i], shown[i + 4]) << "a result has the id of its call";
  }
  EXPECT_NE(shown[0], shown[1]);
  EXPECT_EQ(shown[2], "abcDEF123");
  EXPECT_EQ(ids_in_prompt({"toolu_01A"}).at(0), shown[1]) << "the next turn shows the same text";
}

TEST_F(LongChat, LeavesIdsOfCallsToOtherTemplates) {
  write_file("chat_template.jinja", "{# <tool_call> #}{% for m in messages %}<|turn|>{{ m.tool_call_id }}{% endfor %}");
  restart();
  chat({{"messages", Document::array({{{"role", "tool"}, {"tool_call_id", "call_r1_0_0"}, {"content", "1"}}})}});
  EXPECT_EQ(prompt_of(*engine_.calls.at(0)), "<|turn|>call_r1_0_0");
}

}  // namespace
}  // namespace lockstep::serve
