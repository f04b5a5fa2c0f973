#include "tests/serve/load/event_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace lockstep::load {
namespace {

using Json = nlohmann::json;

/// A member, or null.
const Json& member(const Json& of, const char* name) {
  static const Json none;
  const auto at = of.is_object() ? of.find(name) : of.end();
  return at == of.end() ? none : *at;
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : std::string(); }

int count_of(const Json& value) { return value.is_number_integer() ? value.get<int>() : -1; }

std::string text_of_choice(const Json& choice) {
  const Json& delta = member(choice, "delta");
  std::string text = text_of(member(choice, "text")) + text_of(member(delta, "content")) +
                     text_of(member(delta, "reasoning")) + text_of(member(delta, "reasoning_content"));
  for (const Json& call : member(delta, "tool_calls")) text += text_of(member(member(call, "function"), "arguments"));
  return text;
}

}  // namespace

std::vector<std::string> EventReader::put(std::string_view bytes) {
  std::vector<std::string> events;
  for (size_t end; (end = bytes.find('\n')) != std::string_view::npos; bytes.remove_prefix(end + 1)) {
    line_ += bytes.substr(0, end);
    if (line_.ends_with('\r')) line_.pop_back();
    take_line(line_, events);
    line_.clear();
  }
  line_ += bytes;
  return events;
}

void EventReader::take_line(std::string_view line, std::vector<std::string>& events) {
  if (line.empty()) {
    if (std::exchange(has_data_, false)) events.push_back(std::exchange(data_, {}));
    return;
  }
  if (!line.starts_with("data:")) return;
  line.remove_prefix(line.starts_with("data: ") ? 6 : 5);
  if (std::exchange(has_data_, true)) data_ += '\n';
  data_ += line;
}

StreamEvent read_event(std::string_view data) {
  StreamEvent event;
  if (data == "[DONE]") {
    event.is_end = true;
    return event;
  }
  const Json json = Json::parse(data, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    event.error = "found '" + std::string(data.substr(0, 80)) + "', expected an object";
    return event;
  }
  const Json& error = member(json, "error");
  if (!error.is_null()) event.error = error.is_object() ? text_of(member(error, "message")) : error.dump();
  for (const Json& choice : member(json, "choices")) event.text += text_of_choice(choice);
  const Json& usage = member(json, "usage");
  event.completion_tokens = count_of(member(usage, "completion_tokens"));
  event.prompt_tokens = count_of(member(usage, "prompt_tokens"));
  event.cached_tokens = std::max(0, count_of(member(member(usage, "prompt_tokens_details"), "cached_tokens")));
  return event;
}

}  // namespace lockstep::load
