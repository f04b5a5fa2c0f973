#include "launcher/serve/api/responses_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/serve/api/conversation.h"

namespace lockstep::serve {
namespace {

constexpr size_t kMostItems = 4096;
constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant"};

ApiResult<std::string> text_at(const BodyField& object, std::string_view name) {
  LOCKSTEP_TRY(const BodyField field, object.at(name));
  return field.text();
}

ApiResult<void> add_message(const BodyField& item, Conversation& conversation) {
  LOCKSTEP_TRY(const BodyField role_field, item.at("role"));
  LOCKSTEP_TRY(const std::string role, role_field.text());
  if (std::ranges::find(kRoles, role) == std::end(kRoles)) {
    return role_field.invalid(
        fmt::format("found \"{}\", expected \"user\", \"assistant\", \"system\" or \"developer\"", role));
  }
  LOCKSTEP_TRY(const BodyField content, item.at("content"));
  LOCKSTEP_TRY(const std::string text, read_content(content));
  conversation.add_text(role, text);
  return ok();
}

ApiResult<void> add_call(const BodyField& item, Conversation& conversation) {
  LOCKSTEP_TRY(const std::string id, text_at(item, "call_id"));
  LOCKSTEP_TRY(const std::string name, text_at(item, "name"));
  LOCKSTEP_TRY(const std::string arguments, text_at(item, "arguments"));
  const auto parsed = parse_body(arguments);
  conversation.add_call(id, name, parsed.has_value() ? *parsed.value() : Json(arguments));
  return ok();
}

ApiResult<void> add_result(const BodyField& item, Conversation& conversation) {
  LOCKSTEP_TRY(const std::string id, text_at(item, "call_id"));
  LOCKSTEP_TRY(const BodyField output, item.at("output"));
  LOCKSTEP_TRY(const std::string text, read_content(output));
  conversation.add_result(id, text);
  return ok();
}

/// The texts of "content"; without any, those of "summary". Encrypted reasoning is not readable here.
ApiResult<void> add_reasoning(const BodyField& item, Conversation& conversation) {
  for (const std::string_view name : {"content", "summary"}) {
    const auto list = item.find(name);
    if (!list) continue;
    LOCKSTEP_TRY(const auto parts, list->elements());
    for (const BodyField& part : parts) {
      LOCKSTEP_TRY(const std::string text, text_at(part, "text"));
      conversation.add_reasoning(text);
    }
    if (!parts.empty()) break;
  }
  return ok();
}

ApiResult<void> add_item(const BodyField& field, Conversation& conversation) {
  LOCKSTEP_TRY(const BodyField item, field.object());
  LOCKSTEP_TRY(const std::string type, item.text_or("type", "message"));
  if (type == "message") return add_message(item, conversation);
  if (type == "function_call") return add_call(item, conversation);
  if (type == "function_call_output") return add_result(item, conversation);
  if (type == "reasoning") return add_reasoning(item, conversation);
  return item.invalid(
      fmt::format("found an item of type \"{}\", expected \"message\", \"function_call\", "
                  "\"function_call_output\" or \"reasoning\"",
                  type));
}

ApiResult<void> read_input(const BodyField& body, Conversation& conversation) {
  LOCKSTEP_TRY(const std::string instructions, body.text_or("instructions", ""));
  if (!instructions.empty()) conversation.add_text("system", instructions);
  LOCKSTEP_TRY(const BodyField input, body.at("input"));
  if (input.value().is_string()) {
    LOCKSTEP_TRY(const std::string text, input.text());
    conversation.add_text("user", text);
    return ok();
  }
  if (!input.value().is_array()) return input.expected("a text or a list of items");
  LOCKSTEP_TRY(const auto items, input.elements());
  if (items.size() > kMostItems) {
    return input.invalid(fmt::format("found {} items, expected at most {}", items.size(), kMostItems));
  }
  for (const BodyField& item : items) LOCKSTEP_TRY_VOID(add_item(item, conversation));
  if (items.empty()) conversation.add_text("user", "");  // clients send it to see whether a model answers
  return ok();
}

ApiResult<void> read_functions(const BodyField& body, ChatRequest& request) {
  LOCKSTEP_TRY(const auto elements, tool_elements(body));
  for (const BodyField& element : elements) {
    LOCKSTEP_TRY(const BodyField object, element.object());
    LOCKSTEP_TRY(const std::string type, text_at(object, "type"));
    if (type != "function") continue;
    LOCKSTEP_TRY(request.tools.emplace_back(), read_flat_tool(object, "parameters"));
  }
  return ok();
}

ApiResult<void> read_choice(const BodyField& body, ChatRequest& request) {
  const auto field = body.find("tool_choice");
  if (!field) return ok();
  if (field->value().is_object()) {
    LOCKSTEP_TRY(const std::string type, text_at(*field, "type"));
    if (type != "function") {
      return field->invalid(fmt::format("found type \"{}\", expected \"function\"; this is not supported", type));
    }
    LOCKSTEP_TRY(request.named, text_at(*field, "name"));
    request.tool_choice = ToolChoice::kNamed;
    if (std::ranges::find(request.tools, request.named, &Tool::name) != request.tools.end()) return ok();
    return field->invalid(fmt::format("found \"{}\", expected the name of one of the tools", request.named));
  }
  LOCKSTEP_TRY(const std::string choice, field->text());
  if (choice == "none") {
    request.tool_choice = ToolChoice::kNone;
  } else if (choice == "required") {
    request.tool_choice = ToolChoice::kRequired;
    if (request.tools.empty()) return field->invalid("found \"required\" without functions, expected at least one");
  } else if (choice != "auto") {
    return field->invalid(fmt::format("found \"{}\", expected \"none\", \"auto\", \"required\" or a function", choice));
  }
  return ok();
}

/// Variables of the template: the effort of reasoning.
ApiResult<std::string> read_reasoning(const BodyField& body) {
  Json variables = Json::object();
  const auto reasoning = body.find("reasoning");
  const auto effort = reasoning ? reasoning->find("effort") : std::nullopt;
  if (effort && effort->value() == Json("none")) {
    variables["enable_thinking"] = false;
  } else if (effort) {
    LOCKSTEP_TRY(variables["reasoning_effort"], effort->text());
  }
  return to_line(variables);
}

}  // namespace

ApiResult<ChatRequest> read_response_request(const BodyField& body) {
  ChatRequest request;
  Conversation conversation(UserTexts::kSeparate);
  LOCKSTEP_TRY_VOID(read_input(body, conversation));
  request.messages = conversation.take();
  LOCKSTEP_TRY_VOID(read_functions(body, request));
  LOCKSTEP_TRY_VOID(read_choice(body, request));
  LOCKSTEP_TRY(request.parallel, body.flag_or("parallel_tool_calls", true));
  LOCKSTEP_TRY(request.variables, read_reasoning(body));
  return request;
}

ApiResult<std::string> read_text_format(const BodyField& body) {
  const auto text = body.find("text");
  if (!text) return std::string();
  const auto format = text->find("format");
  if (!format) return std::string();
  LOCKSTEP_TRY(const BodyField type_field, format->at("type"));
  LOCKSTEP_TRY(const std::string type, type_field.text());
  if (type == "text") return std::string();
  if (type == "json_object") return to_line({{"type", "any_json"}});
  if (type == "json_schema") {
    LOCKSTEP_TRY(const BodyField schema, format->at("schema"));
    LOCKSTEP_TRY(const BodyField object, schema.object());
    return to_line({{"type", "json_schema"}, {"json_schema", object.value()}});
  }
  return type_field.invalid(fmt::format("found \"{}\", expected \"text\", \"json_object\" or \"json_schema\"", type));
}

}  // namespace lockstep::serve
