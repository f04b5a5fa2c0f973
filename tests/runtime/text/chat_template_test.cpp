#include "runtime/text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace lockstep::text {
namespace {

using ::testing::HasSubstr;

const std::vector<Message> kChat = {{"user", "Hello"}, {"assistant", "Hi"}};

Result<std::string> render(std::string_view source, const ChatOptions& options = {}) {
  LOCKSTEP_TRY(const auto parsed, parse_chat_template(source));
  return parsed->render(kChat, options);
}

Error error_of(std::string_view source) {
  const auto rendered = render(source);
  return rendered.has_value() ? Error{ErrorKind::kInternal, "rendered: " + rendered.value()} : rendered.error();
}

class ModelDirectory {
 public:
  ModelDirectory()
      : path_(std::filesystem::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(path_);
  }
  ~ModelDirectory() { std::filesystem::remove_all(path_); }
  void write(const char* name, std::string_view text) const { std::ofstream(path_ / name) << text; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST(ChatTemplate, SeesTheMessagesTheOptionsAndTheTokens) {
  EXPECT_EQ(render("{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m['content'] }};{% endfor %}"
                   "{% if add_generation_prompt %}>{% endif %}{{ eos_token }}",
                   {.add_generation_prompt = true, .bos_token = "<s>", .eos_token = "</s>"})
                .value(),
            "<s>user: Hello;assistant: Hi;></s>");
}

TEST(ChatTemplate, SeesFurtherVariablesInTheirOrder) {
  EXPECT_EQ(render("{{ tools | tojson }} {{ enable_thinking }}",
                   {.variables_json = R"({"tools": [{"z": 1, "a": 2}], "enable_thinking": false})"})
                .value(),
            R"([{"z": 1, "a": 2}] False)");
  EXPECT_FALSE(render("x", {.variables_json = "[1]"}).has_value());
  EXPECT_FALSE(render("x", {.variables_json = "{"}).has_value());
}

TEST(ChatTemplate, SeesTheFieldsOfAMessage) {
  const auto parsed = parse_chat_template(
      "{% for m in messages %}{{ m.role }}={{ m.content }}"
      "{% for c in m.tool_calls or [] %}[{{ c.function.name }} {{ c.function.arguments | tojson }}]{% endfor %};{% "
      "endfor %}");
  const std::vector<Message> messages = {
      {"user", "a"},
      {"assistant", "", R"({"tool_calls": [{"function": {"name": "f", "arguments": {"z": 1, "a": 2}}}]})"},
      {"tool", "x", R"({"content": "y"})"}};
  EXPECT_EQ(parsed.value()->render(messages, {}).value(), R"(user=a;assistant=[f {"z": 1, "a": 2}];tool=y;)");
  EXPECT_FALSE(parsed.value()->render({{"user", "a", "[1]"}}, {}).has_value());
}

Result<std::string> render_fields(std::string_view source, const std::vector<std::string>& messages,
                                  const ChatOptions& options = {.add_generation_prompt = false}) {
  LOCKSTEP_TRY(const auto parsed, parse_chat_template(source));
  std::vector<Message> turns;
  for (const std::string& fields : messages) turns.push_back({.role = {}, .content = {}, .fields_json = fields});
  return parsed->render(turns, options);
}

TEST(ChatTemplate, TakesAMessageWithoutARoleAsItIs) {
  EXPECT_EQ(render_fields("{{ messages[0] }}", {R"({"content": "a", "role": "user"})"}).value(),
            "{'content': 'a', 'role': 'user'}");
  EXPECT_EQ(render_fields("{{ messages[0].role is defined }}", {R"({"content": "a"})"}).value(), "False");
}

TEST(ChatTemplate, OmitsKeysOfMessagesWhoseValueIsNull) {
  EXPECT_EQ(
      render_fields("{{ messages[0] }}", {R"({"role": "a", "content": null, "name": null, "x": {"y": null}})"}).value(),
      "{'role': 'a', 'x': {'y': None}}");
  const auto parsed = parse_chat_template("{{ messages[0].content is defined }}");
  EXPECT_EQ(parsed.value()->render({{"user", "a", R"({"content": null})"}}, {}).value(), "False");
}

TEST(ChatTemplate, SeesReasoningUnderEachOfItsNames) {
  constexpr std::string_view kSource = "{{ messages[0] }}";
  EXPECT_EQ(render_fields(kSource, {R"({"role": "a", "reasoning": "r"})"}).value(),
            "{'thinking': 'r', 'role': 'a', 'reasoning': 'r', 'reasoning_content': 'r'}");
  EXPECT_EQ(render_fields(kSource, {R"({"role": "a", "thinking": "t", "reasoning_content": null})"}).value(),
            "{'thinking': 't', 'role': 'a', 'reasoning_content': 't'}");
  EXPECT_EQ(render_fields(kSource, {R"({"reasoning_content": "r", "thinking": "t"})"}).value(),
            "{'thinking': 't', 'reasoning_content': 'r'}");
}

TEST(ChatTemplate, RefusesIntegersBeyond64Bits) {
  EXPECT_EQ(
      render_fields("{{ messages[0].n }}", {R"({"n": -9223372036854775808, "s": "99999999999999999999\""})"}).value(),
      "-9223372036854775808");
  EXPECT_EQ(render_fields("{{ messages[0].n }}", {R"({"n": 12345678901234567890.5})"}).value(),
            "1.2345678901234567e+19");
  for (const char* number : {"9223372036854775808", "-9223372036854775809", "100000000000000000000000"}) {
    const auto rendered = render_fields("x", {std::string(R"({"n": )") + number + "}"});
    ASSERT_FALSE(rendered.has_value()) << number;
    EXPECT_THAT(rendered.error().message, HasSubstr("beyond 64 bits"));
  }
}

TEST(ChatTemplate, RefusesAConversationWithoutMessages) {
  EXPECT_EQ(render_fields("x", {}).error().kind, ErrorKind::kInvalidArgument);
}

constexpr std::string_view kTurns = "{% for m in messages %}<t>{{ m.content }}</t>\n{% endfor %}";
constexpr std::string_view kTrimmed = "{% for m in messages %}<t>{{ m.content | trim }}</t>\n{% endfor %}";

TEST(ChatTemplate, EndsWithTheContinuedMessage) {
  const ChatOptions options = {.add_generation_prompt = false, .continued_field = "content"};
  const std::vector<std::string> chat = {R"({"content": "t"})", R"({"content": "Sure: "})"};
  EXPECT_EQ(render_fields(kTurns, chat, options).value(), "<t>t</t>\n<t>Sure: ");
  EXPECT_EQ(render_fields(kTrimmed, chat, options).value(), "<t>t</t>\n<t>Sure:");
  EXPECT_EQ(render_fields(kTurns, {R"({"content": ""})"}, options).value(), "<t>");
  constexpr std::string_view kParts = "{% for p in messages[0].content %}[{{ p.text or p.type }}]{% endfor %}";
  EXPECT_EQ(
      render_fields(kParts, {R"({"content": [{"text": "a"}, {"text": "b"}, {"type": "image"}]})"}, options).value(),
      "[a][b");
}

TEST(ChatTemplate, EndsWithTheContinuedReasoningUnderTheNameThatItReads) {
  constexpr std::string_view kSource = "<think>{{ messages[0].thinking }}</think>{{ messages[0].content }}";
  const ChatOptions options = {.add_generation_prompt = false, .continued_field = "reasoning"};
  EXPECT_EQ(render_fields(kSource, {R"({"reasoning": "hm", "content": "a"})"}, options).value(), "<think>hm");
}

TEST(ChatTemplate, RefusesToContinueWhatItDoesNotShow) {
  const ChatOptions options = {.add_generation_prompt = false, .continued_field = "content"};
  const std::pair<std::string_view, const char*> cases[] = {
      {"{{ messages[0].role }} content", R"({"role": "a", "content": "b"})"},
      {"{{ messages[0].role }}", R"({"role": "a", "content": "b"})"},
      {"{{ messages[0].content | upper }}", R"({"content": "b"})"},
      {kTurns, R"({"role": "a"})"},
      {kTurns, R"({"content": 1})"},
      {kTurns, R"({"content": [{"type": "image"}]})"}};
  for (const auto& [source, message] : cases) {
    const auto rendered = render_fields(source, {message}, options);
    ASSERT_FALSE(rendered.has_value()) << source << rendered.value();
    EXPECT_THAT(rendered.error().message, HasSubstr("cannot continue the last message")) << source;
  }
  EXPECT_FALSE(render_fields(kTurns, {R"({"content": "b"})"}, {.continued_field = "content"}).has_value());
}

TEST(ChatTemplate, FormatsTimesWithoutAZoneAndMicroseconds) {
  EXPECT_EQ(render("{{ strftime_now('%Y%Z%z%f%%Z%') }}", {.now = std::tm{.tm_year = 126}}).value(), "2026000000%Z%");
}

TEST(ChatTemplate, FormatsTheTimeThatItIsGivenAndHasNoClockOtherwise) {
  std::tm day{};
  day.tm_year = 126;
  day.tm_mon = 10;
  day.tm_mday = 21;
  constexpr std::string_view kSource = "{{ strftime_now('%d %b %Y') if strftime_now is defined else 'no clock' }}";
  EXPECT_EQ(render(kSource, {.now = day}).value(), "21 Nov 2026");
  EXPECT_EQ(render(kSource).value(), "no clock");
}

TEST(ChatTemplate, NamesTheLineAndTheReasonOfAnError) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"a\nb\n{{ raise_exception('system role not supported') }}", "line 3", "system role not supported"},
      {"a\n{{ 'x' | frobnicate }}", "line 2", "frobnicate"},
      {"{{ 'x'.frobnicate() }}", "line 1", "frobnicate"},
      {"\n\n\n{{ nobody.name }}", "line 4", "nobody"},
      {"\n{% if true %}\nx", "line 3", "endif"},
      {"\n{{ 'a' + 1 }}", "line 2", "str + int"},
      {"{{ 1 is frobnicated }}", "line 1", "frobnicated"},
  };
  for (const auto& [source, line, reason] : cases) {
    const Error error = error_of(source);
    EXPECT_EQ(error.kind, ErrorKind::kInvalidArgument) << source;
    EXPECT_THAT(error.message, HasSubstr(line)) << source;
    EXPECT_THAT(error.message, HasSubstr(reason)) << source;
  }
}

TEST(ChatTemplate, NamesAStatementThatItDoesNotSupport) {
  const auto parsed = parse_chat_template("x\n{% include 'other' %}");
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(parsed.error().message, HasSubstr("line 2"));
  EXPECT_THAT(parsed.error().message, HasSubstr("include"));
}

TEST(ChatTemplate, EndsWhatWouldNotEnd) {
  std::string sum = "{{ 1";
  for (int i = 0; i < 100'000; ++i) sum += "+1";
  std::string blocks;
  for (int i = 0; i < 100'000; ++i) blocks += "{% if 1 %}";
  const std::string cases[] = {
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f(x) %}{{ f(((((((((((((((((((((x))))))))))))))))))))) }}{% endmacro %}{{ f(1) }}",
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
      "{{ 'abcdefgh' * 1000000000 }}",
      "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
      "{% for i in range(99999) %}{{ 'x' * 9999 }}{% endfor %}",
      "{% set ns = namespace() %}{% set ns.me = ns %}",
      "{{ range(0, 9000000000000000000) | list }}",
      "{{ " + std::string(100'000, '(') + "1" + std::string(100'000, ')') + " }}",
      "{{ " + std::string(100'000, '-') + "1 }}",
      "{{ " + std::string(100'000, '[') + std::string(100'000, ']') + " }}",
      sum + " }}",
      blocks,
  };
  for (const auto& source : cases) {
    EXPECT_EQ(error_of(source).kind, ErrorKind::kInvalidArgument) << source.substr(0, 60);
  }
}

TEST(LoadChat, ReadsTheTemplateAndTheTokensOfTheTokenizersConfiguration) {
  const ModelDirectory model;
  model.write("tokenizer_config.json", R"({"chat_template": "{{ bos_token }}!", "bos_token": {"content": "<b>"},
                                           "eos_token": "<e>", "pad_token": {"content": "<p>"}, "unk_token": null})");
  const auto chat = load_chat(model.path());
  ASSERT_TRUE(chat.has_value()) << chat.error().message;
  EXPECT_EQ(chat.value().bos_token, "<b>");
  EXPECT_EQ(chat.value().eos_token, "<e>");
  EXPECT_EQ(chat.value().usual.parsed->render(kChat, {.bos_token = chat.value().bos_token}).value(), "<b>!");
  ASSERT_EQ(chat.value().other_tokens.size(), 1u);
  EXPECT_EQ(chat.value().other_tokens[0].name, "pad_token");
  EXPECT_EQ(chat.value().other_tokens[0].text, "<p>");
  model.write("chat_template.jinja", "{{ pad_token }}{{ eos_token }}{{ unk_token is defined }}");
  EXPECT_EQ(render_chat(load_chat(model.path()).value(), kChat, {}).value(), "<p><e>False");
}

TEST(LoadChat, PrefersTheFileAndTakesTheDefaultOfAList) {
  const ModelDirectory model;
  model.write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "tools"},
                                                             {"name": "default", "template": "listed"}]})");
  EXPECT_EQ(render_chat(load_chat(model.path()).value(), kChat, {}).value(), "listed");
  model.write("chat_template.jinja", "from the file\n");
  EXPECT_EQ(render_chat(load_chat(model.path()).value(), kChat, {}).value(), "from the file");
}

TEST(LoadChat, ToolsHaveTheirTemplate) {
  const ModelDirectory model;
  const auto render = [&](const std::string& variables) {
    const auto chat = load_chat(model.path());
    EXPECT_TRUE(chat.has_value()) << chat.error().message;
    return render_chat(chat.value(), kChat, {.variables_json = variables}).value();
  };
  const std::string tools = R"({"tools": [{"name": "f"}]})";
  model.write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "{{ tools[0].name }}"},
                                                             {"name": "default", "template": "usual"}]})");
  EXPECT_EQ(render(tools), "f");
  EXPECT_EQ(render(R"({"tools": null})"), "usual");
  EXPECT_EQ(render(""), "usual");
  model.write("tokenizer_config.json", R"({"chat_template": {"tool_use": "tools", "default": "usual"}})");
  EXPECT_EQ(render(tools), "tools");
  model.write("chat_template.jinja", "file");  // replaces all of tokenizer_config.json
  EXPECT_EQ(render(tools), "file");
  std::filesystem::create_directory(model.path() / "additional_chat_templates");
  model.write("additional_chat_templates/tool_use.jinja", "tools' file");
  EXPECT_EQ(render(tools), "tools' file");
  EXPECT_EQ(render(""), "file");
  model.write("additional_chat_templates/tool_use.jinja", "{% unknown %}");
  EXPECT_EQ(render(""), "file");
  const auto refused = render_chat(load_chat(model.path()).value(), kChat, {.variables_json = tools});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("unknown"));
}

TEST(LoadChat, SaysWhenAModelHasNone) {
  const ModelDirectory model;
  EXPECT_EQ(load_chat(model.path()).error().kind, ErrorKind::kNotFound);
  model.write("tokenizer_config.json", R"({"bos_token": null})");
  EXPECT_EQ(load_chat(model.path()).error().kind, ErrorKind::kNotFound);
  model.write("tokenizer_config.json", "{");
  EXPECT_EQ(load_chat(model.path()).error().kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::text
