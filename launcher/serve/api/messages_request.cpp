#include "launcher/serve/api/messages_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/serve/api/conversation.h"

namespace lockstep::serve {
namespace {

constexpr size_t kMostMessages = 4096;

ApiResult<std::string> text_at(const BodyField& object, std::string_view name) {
  LOCKSTEP_TRY(const BodyField field, object.at(name));
  return field.text();
}

ApiError unknown_block(const BodyField& block, const std::string& type) {
  return block.invalid(fmt::format("found a block of type \"{}\", expected text; this model reads text only", type));
}

/// A text, or text blocks joined by new lines.
ApiResult<std::string> text_of(const BodyField& field) {
  if (field.value().is_string()) return field.text();
  if (!field.value().is_array()) return field.expected("a text or a list of blocks");
  std::string joined;
  LOCKSTEP_TRY(const auto blocks, field.elements());
  for (size_t i = 0; i < blocks.size(); ++i) {
    LOCKSTEP_TRY(const BodyField block, blocks[i].object());
    LOCKSTEP_TRY(const std::string type, text_at(block, "type"));
    if (type != "text") return unknown_block(block, type);
    LOCKSTEP_TRY(const std::string text, text_at(block, "text"));
    joined += (i > 0 ? "\n" : "") + text;
  }
  return joined;
}

ApiResult<void> add_result(const BodyField& block, Conversation& conversation) {
  LOCKSTEP_TRY(const std::string id, text_at(block, "tool_use_id"));
  std::string text;
  if (const auto content = block.find("content")) {
    LOCKSTEP_TRY(text, text_of(*content));
  }
  LOCKSTEP_TRY(const bool failed, block.flag_or("is_error", false));
  conversation.add_result(id, failed ? "Error: " + text : text);
  return ok();
}

ApiResult<void> add_call(const BodyField& block, Conversation& conversation) {
  LOCKSTEP_TRY(const std::string id, text_at(block, "id"));
  LOCKSTEP_TRY(const std::string name, text_at(block, "name"));
  LOCKSTEP_TRY(const BodyField input, block.at("input"));
  LOCKSTEP_TRY(const BodyField arguments, input.object());
  conversation.add_call(id, name, arguments.value());
  return ok();
}

ApiResult<void> add_block(const std::string& role, const BodyField& field, std::string& text,
                          Conversation& conversation) {
  LOCKSTEP_TRY(const BodyField block, field.object());
  LOCKSTEP_TRY(const std::string type, text_at(block, "type"));
  const bool assistant = role == "assistant";
  if (type == "text") {
    LOCKSTEP_TRY(const std::string more, text_at(block, "text"));
    text += (text.empty() ? "" : "\n") + more;
    return ok();
  }
  if (type == "tool_result" && !assistant) return add_result(block, conversation);
  if (type == "tool_use" && assistant) return add_call(block, conversation);
  if (type == "thinking" && assistant) {
    LOCKSTEP_TRY(const std::string thinking, text_at(block, "thinking"));
    conversation.add_reasoning(thinking);
    return ok();
  }
  if (type == "redacted_thinking" && assistant) return ok();  // not readable here
  return unknown_block(block, type);
}

/// Results of tools come before the text of the same message, as in the protocol.
ApiResult<void> add_message(const BodyField& field, Conversation& conversation) {
  LOCKSTEP_TRY(const BodyField message, field.object());
  LOCKSTEP_TRY(const BodyField role_field, message.at("role"));
  LOCKSTEP_TRY(const std::string role, role_field.text());
  if (role != "user" && role != "assistant" && role != "system") {
    return role_field.invalid(fmt::format("found \"{}\", expected \"user\" or \"assistant\"", role));
  }
  LOCKSTEP_TRY(const BodyField content, message.at("content"));
  if (content.value().is_string()) {
    LOCKSTEP_TRY(const std::string text, content.text());
    conversation.add_text(role, text);
    return ok();
  }
  if (!content.value().is_array()) return content.expected("a text or a list of blocks");
  LOCKSTEP_TRY(const auto blocks, content.elements());
  std::string text;
  for (const BodyField& block : blocks) LOCKSTEP_TRY_VOID(add_block(role, block, text, conversation));
  if (!text.empty() || blocks.empty()) conversation.add_text(role, text);
  return ok();
}

ApiResult<void> read_turns(const BodyField& body, Conversation& conversation) {
  if (const auto system = body.find("system")) {
    LOCKSTEP_TRY(const std::string text, text_of(*system));
    if (!text.empty()) conversation.add_text("system", text);
  }
  LOCKSTEP_TRY(const BodyField messages, body.at("messages"));
  LOCKSTEP_TRY(const auto elements, messages.elements());
  if (elements.empty() || elements.size() > kMostMessages) {
    return messages.invalid(fmt::format("found {} messages, expected 1 to {}", elements.size(), kMostMessages));
  }
  for (const BodyField& element : elements) LOCKSTEP_TRY_VOID(add_message(element, conversation));
  return ok();
}

/// Types of tools that other servers run themselves are skipped.
ApiResult<void> read_tools_of(const BodyField& body, ChatRequest& request) {
  LOCKSTEP_TRY(const auto elements, tool_elements(body));
  for (const BodyField& element : elements) {
    LOCKSTEP_TRY(const BodyField object, element.object());
    LOCKSTEP_TRY(const std::string type, object.text_or("type", "custom"));
    if (type != "custom") continue;
    LOCKSTEP_TRY_VOID(object.at("input_schema"));
    LOCKSTEP_TRY(request.tools.emplace_back(), read_flat_tool(object, "input_schema"));
  }
  return ok();
}

ApiResult<void> read_choice_of(const BodyField& body, ChatRequest& request) {
  const auto field = body.find("tool_choice");
  if (!field) return ok();
  LOCKSTEP_TRY(const BodyField object, field->object());
  LOCKSTEP_TRY(const BodyField type_field, object.at("type"));
  LOCKSTEP_TRY(const std::string type, type_field.text());
  LOCKSTEP_TRY(const bool single, object.flag_or("disable_parallel_tool_use", false));
  request.parallel = !single;
  if (type == "auto") return ok();
  if (type == "none") {
    request.tool_choice = ToolChoice::kNone;
    return ok();
  }
  if (type == "any") {
    request.tool_choice = ToolChoice::kRequired;
    if (request.tools.empty()) return object.invalid("found \"any\" without tools, expected at least one tool");
    return ok();
  }
  if (type != "tool") {
    return type_field.invalid(fmt::format("found \"{}\", expected \"auto\", \"any\", \"tool\" or \"none\"", type));
  }
  LOCKSTEP_TRY(const BodyField name, object.at("name"));
  LOCKSTEP_TRY(request.named, name.text());
  request.tool_choice = ToolChoice::kNamed;
  if (std::ranges::find(request.tools, request.named, &Tool::name) != request.tools.end()) return ok();
  return name.invalid(fmt::format("found \"{}\", expected the name of one of the tools", request.named));
}

/// Variables of the template. Without `thinking` the template's own default holds.
ApiResult<std::string> read_thinking(const BodyField& body) {
  Json variables = Json::object();
  if (const auto thinking = body.find("thinking")) {
    LOCKSTEP_TRY(const BodyField type_field, thinking->at("type"));
    LOCKSTEP_TRY(const std::string type, type_field.text());
    if (type != "enabled" && type != "disabled" && type != "adaptive") {
      return type_field.invalid(fmt::format("found \"{}\", expected \"enabled\", \"adaptive\" or \"disabled\"", type));
    }
    variables["enable_thinking"] = type != "disabled";
  }
  return to_line(variables);
}

}  // namespace

ApiResult<ChatRequest> read_messages_request(const BodyField& body, const ReadContext& context) {
  ChatRequest request;
  Conversation conversation(context.text->shows_user_after_result() ? UserTexts::kJoined : UserTexts::kJoinedToResults);
  LOCKSTEP_TRY_VOID(read_turns(body, conversation));
  request.continue_final = conversation.ends_with_text_of_assistant();
  request.add_generation_prompt = !request.continue_final;
  request.messages = conversation.take();
  LOCKSTEP_TRY_VOID(read_tools_of(body, request));
  LOCKSTEP_TRY_VOID(read_choice_of(body, request));
  LOCKSTEP_TRY(request.variables, read_thinking(body));
  return request;
}

ApiResult<std::string> read_output_format(const BodyField& body) {
  auto format = body.find("output_format");
  if (const auto config = body.find("output_config"); config && !format) format = config->find("format");
  if (!format) return std::string();
  LOCKSTEP_TRY(const BodyField type_field, format->at("type"));
  LOCKSTEP_TRY(const std::string type, type_field.text());
  if (type != "json_schema") return type_field.invalid(fmt::format("found \"{}\", expected \"json_schema\"", type));
  LOCKSTEP_TRY(const BodyField schema, format->at("schema"));
  LOCKSTEP_TRY(const BodyField object, schema.object());
  return to_line({{"type", "json_schema"}, {"json_schema", object.value()}});
}

}  // namespace lockstep::serve
