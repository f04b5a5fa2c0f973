// Reads messages and tools of a chat.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/serve/api/chat_request.h"

namespace lockstep::serve {
namespace {

constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool", "function"};
constexpr std::string_view kTextParts[] = {"text", "input_text", "output_text", "refusal"};
constexpr size_t kMostMessages = 4096;
constexpr size_t kMostTools = 512;

ApiResult<std::string> read_part(const BodyField& part) {
  LOCKSTEP_TRY(const BodyField object, part.object());
  LOCKSTEP_TRY(const BodyField type_field, object.at("type"));
  LOCKSTEP_TRY(const std::string type, type_field.text());
  if (std::ranges::find(kTextParts, type) == std::end(kTextParts)) {
    return type_field.invalid(fmt::format("found \"{}\", expected \"text\"; this model reads text only", type));
  }
  LOCKSTEP_TRY(const BodyField text, object.at(type == "refusal" ? "refusal" : "text"));
  return text.text();
}

/// Templates expect the arguments as an object. Text that is no JSON, such as a call that was cut, stays text.
Json arguments_of(const Json& value) {
  if (!value.is_string()) return value;
  const auto parsed = parse_body(value.get_ref<const std::string&>());
  return parsed.has_value() ? *parsed.value() : value;
}

ApiResult<Json> read_calls(const BodyField& field) {
  Json calls = Json::array();
  LOCKSTEP_TRY(const auto elements, field.elements());
  for (const BodyField& element : elements) {
    LOCKSTEP_TRY(const BodyField call, element.object());
    LOCKSTEP_TRY(const BodyField function, call.at("function"));
    LOCKSTEP_TRY(const BodyField name_field, function.at("name"));
    LOCKSTEP_TRY(const std::string name, name_field.text());
    LOCKSTEP_TRY(const std::string id, call.text_or("id", ""));
    const auto arguments = function.find("arguments");
    calls.push_back(
        {{"id", id},
         {"type", "function"},
         {"function", {{"name", name}, {"arguments", arguments ? arguments_of(arguments->value()) : Json::object()}}}});
  }
  return calls;
}

ApiResult<text::Message> read_message(const BodyField& field) {
  LOCKSTEP_TRY(const BodyField message, field.object());
  LOCKSTEP_TRY(const BodyField role_field, message.at("role"));
  text::Message made;
  LOCKSTEP_TRY(made.role, role_field.text());
  if (std::ranges::find(kRoles, made.role) == std::end(kRoles)) {
    return role_field.invalid(fmt::format(
        "found \"{}\", expected \"system\", \"developer\", \"user\", \"assistant\" or \"tool\"", made.role));
  }
  Json more = Json::object();
  if (const auto calls = message.find("tool_calls")) {
    LOCKSTEP_TRY(Json read, read_calls(*calls));
    if (!read.empty()) more["tool_calls"] = std::move(read);
  }
  for (const std::string_view name : {"name", "tool_call_id", "reasoning_content"}) {
    const auto text = message.find(name);
    if (!text) continue;
    LOCKSTEP_TRY(more[std::string(name)], text->text());
  }
  if (const auto content = message.find("content")) {
    LOCKSTEP_TRY(made.content, read_content(*content));
  } else if (made.role != "assistant") {
    LOCKSTEP_TRY_VOID(message.at("content"));
  }
  if (!more.empty()) made.fields_json = to_line(more);
  return made;
}

/// A function with its JSON schema in the field `schema`, which may be absent; what templates show is left to the
/// caller.
ApiResult<Tool> read_function(const BodyField& function, std::string_view schema) {
  Tool tool;
  LOCKSTEP_TRY(const BodyField name, function.at("name"));
  LOCKSTEP_TRY(tool.name, name.text());
  if (tool.name.empty() || tool.name.size() > 256) return name.invalid("expected 1 to 256 characters");
  LOCKSTEP_TRY(tool.strict, function.flag_or("strict", false));
  if (const auto parameters = function.find(schema)) {
    LOCKSTEP_TRY(const BodyField object, parameters->object());
    tool.parameters = object.dump();
  }
  return tool;
}

/// Types of tools that other servers run themselves are skipped.
ApiResult<std::optional<Tool>> read_tool(const BodyField& field) {
  LOCKSTEP_TRY(const BodyField object, field.object());
  LOCKSTEP_TRY(const std::string type, object.text_or("type", "function"));
  if (type != "function") return std::optional<Tool>();
  LOCKSTEP_TRY(const BodyField function, object.at("function"));
  LOCKSTEP_TRY(Tool tool, read_function(function, "parameters"));
  LOCKSTEP_TRY_VOID(function.text_or("description", ""));
  tool.shown = object.dump();
  return std::optional(std::move(tool));
}

ApiResult<void> read_choice(const BodyField& field, ChatRequest& request) {
  if (field.value().is_object()) {
    LOCKSTEP_TRY(const BodyField function, field.at("function"));
    LOCKSTEP_TRY(const BodyField name, function.at("name"));
    LOCKSTEP_TRY(request.named, name.text());
    request.tool_choice = ToolChoice::kNamed;
    if (std::ranges::find(request.tools, request.named, &Tool::name) != request.tools.end()) return ok();
    return name.invalid(fmt::format("found \"{}\", expected the name of one of the tools", request.named));
  }
  LOCKSTEP_TRY(const std::string choice, field.text());
  constexpr std::pair<std::string_view, ToolChoice> kChoices[] = {
      {"none", ToolChoice::kNone}, {"auto", ToolChoice::kAuto}, {"required", ToolChoice::kRequired}};
  for (const auto& [name, value] : kChoices) {
    if (name != choice) continue;
    request.tool_choice = value;
    if (value != ToolChoice::kRequired || !request.tools.empty()) return ok();
    return field.invalid("found \"required\" without tools, expected at least one tool");
  }
  return field.invalid(fmt::format("found \"{}\", expected \"none\", \"auto\", \"required\" or a function", choice));
}

}  // namespace

ApiResult<std::string> read_content(const BodyField& field) {
  if (field.value().is_string()) return field.text();
  if (!field.value().is_array()) return field.expected("a text or a list of parts");
  std::string content;
  LOCKSTEP_TRY(const auto parts, field.elements());
  for (size_t i = 0; i < parts.size(); ++i) {
    LOCKSTEP_TRY(const std::string text, read_part(parts[i]));
    content += (i > 0 ? "\n" : "") + text;
  }
  return content;
}

ApiResult<std::vector<text::Message>> read_messages(const BodyField& field) {
  LOCKSTEP_TRY(const auto elements, field.elements());
  if (elements.empty() || elements.size() > kMostMessages) {
    return field.invalid(fmt::format("found {} messages, expected 1 to {}", elements.size(), kMostMessages));
  }
  std::vector<text::Message> messages;
  for (const BodyField& element : elements) {
    LOCKSTEP_TRY(messages.emplace_back(), read_message(element));
  }
  return messages;
}

ApiResult<std::vector<BodyField>> tool_elements(const BodyField& body) {
  const auto field = body.find("tools");
  if (!field) return std::vector<BodyField>();
  LOCKSTEP_TRY(auto elements, field->elements());
  if (elements.size() <= kMostTools) return elements;
  return field->invalid(fmt::format("found {} tools, expected at most {}", elements.size(), kMostTools));
}

ApiResult<Tool> read_flat_tool(const BodyField& object, std::string_view schema) {
  LOCKSTEP_TRY(Tool tool, read_function(object, schema));
  LOCKSTEP_TRY(const std::string description, object.text_or("description", ""));
  const auto parameters = object.find(schema);
  const Json shown = parameters ? parameters->value() : Json({{"type", "object"}, {"properties", Json::object()}});
  tool.shown = to_line(
      {{"type", "function"}, {"function", {{"name", tool.name}, {"description", description}, {"parameters", shown}}}});
  return tool;
}

ApiResult<void> read_tools(const BodyField& body, ChatRequest& request) {
  LOCKSTEP_TRY(const auto elements, tool_elements(body));
  for (const BodyField& element : elements) {
    LOCKSTEP_TRY(auto tool, read_tool(element));
    if (tool) request.tools.push_back(*std::move(tool));
  }
  LOCKSTEP_TRY(request.parallel, body.flag_or("parallel_tool_calls", true));
  const auto choice = body.find("tool_choice");
  return choice ? read_choice(*choice, request) : ApiResult<void>(ok());
}

}  // namespace lockstep::serve
