// The events of a stream whose events have names.
#pragma once

#include <string>
#include <vector>

#include "tests/serve/api/api_fixture.h"

namespace lockstep::serve {

/// The data of the events. Each name is checked to be its data's type.
inline std::vector<Document> named_events(const FakeExchange& exchange) {
  std::vector<Document> events;
  size_t at = 0;
  for (size_t end = exchange.stream.find("\n\n"); end != std::string::npos; end = exchange.stream.find("\n\n", at)) {
    const std::string event = exchange.stream.substr(at, end - at);
    at = end + 2;
    const size_t line = event.find("\ndata: ");
    if (!event.starts_with("event: ") || line == std::string::npos) {
      ADD_FAILURE() << "no event with a name: " << event;
      continue;
    }
    events.push_back(Document::parse(event.substr(line + 7)));
    EXPECT_EQ(events.back()["type"], event.substr(7, line - 7));
  }
  return events;
}

inline std::vector<std::string> types_of(const std::vector<Document>& events) {
  std::vector<std::string> types;
  for (const Document& event : events) types.push_back(event["type"]);
  return types;
}

/// The fixture's template in the form of a model that reasons and calls tools.
inline constexpr std::string_view kReasoningTemplate =
    "{# <think> <tool_call> #}{% for m in messages %}<|turn|>{{ m.role }}:"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}{% endfor %}"
    "{% if tools %}<|turn|>tools:{{ tools | tojson }}{% endif %}"
    "{% if enable_thinking is defined and not enable_thinking %}<|turn|>quiet{% endif %}"
    "{% if add_generation_prompt %}<|turn|>assistant:{% endif %}";

class NamedEventsTest : public ApiTest {
 protected:
  NamedEventsTest() {
    engine_.known.capacity = 4096;
    write_file("tokenizer_config.json",
               Document{{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"chat_template", kReasoningTemplate}}.dump());
    restart();
  }

  /// The prompt of the last request as text; "|" is a turn.
  std::string prompt() const {
    std::string text;
    for (const int32_t id : engine_.calls.back()->request.ids) text += id < 256 ? static_cast<char>(id) : '|';
    return text;
  }
};

}  // namespace lockstep::serve
