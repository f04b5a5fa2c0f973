#include "launcher/serve/api/chat_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "launcher/serve/api/call_ids.h"

namespace lockstep::serve {
namespace {

/// The tools in OpenAI's form, as templates expect them.
Json tools_json(const std::vector<Tool>& tools) {
  Json list = Json::array();
  for (const Tool& tool : tools) list.push_back(Json::parse(tool.shown));
  return list;
}

bool offers_tools(const ChatRequest& request) {
  return !request.tools.empty() && request.tool_choice != ToolChoice::kNone;
}

/// The source of the template that renders the request.
const std::string& template_source(const ChatRequest& request, const text::ModelChat& chat) {
  return chat.template_for(offers_tools(request)).source;
}

ApiResult<std::string> variables_of(const ChatRequest& request) {
  Json variables = request.variables.empty() ? Json::object() : Json::parse(request.variables);
  if (offers_tools(request)) variables["tools"] = tools_json(request.tools);
  return to_line(variables);
}

/// The text counts alone from now on, also where the message came in parts.
void append_text(text::Message& message, std::string_view text) {
  message.content += text;
  if (message.fields_json.empty()) return;
  Json fields = Json::parse(message.fields_json);
  fields.erase("content");
  message.fields_json = to_line(fields);
}

/// Describes the tools in words, for a template that shows none.
void describe_tools(std::vector<text::Message>& messages, const std::vector<Tool>& tools) {
  std::string words =
      "You may call functions. For a call, answer with <tool_call>\n{\"name\": NAME, \"arguments\": OBJECT}\n"
      "</tool_call>. The functions are:";
  for (const Json& tool : tools_json(tools)) words += "\n" + to_line(tool);
  if (!messages.empty() && messages.front().role == "system") {
    append_text(messages.front(), "\n\n" + words);
  } else {
    messages.insert(messages.begin(), {"system", words});
  }
}

ApiResult<std::string> render(const ChatRequest& request, const ReadContext& context) {
  const text::ModelChat* chat = context.text->chat();
  if (chat == nullptr) {
    return invalid_field("messages", "messages: this model has no chat template; use /v1/completions");
  }
  if (request.messages.empty()) return invalid_field("messages", "messages: found none, expected at least one");
  std::vector<text::Message> messages = request.messages;
  const std::string& source = template_source(request, *chat);
  if (source.find("developer") == std::string::npos) {
    for (text::Message& message : messages) {
      if (message.role == "developer") message.role = "system";
    }
  }
  if (offers_tools(request) && source.find("tools") == std::string::npos) {
    describe_tools(messages, request.tools);
  }
  fit_call_ids(messages, context.text->format());
  if (request.continue_final && messages.back().content.find_first_not_of(" \n\t\r") == std::string::npos) {
    return invalid_field("continue_final_message",
                         "continue_final_message: found a last message without text, expected one with text");
  }
  text::ChatOptions options;
  options.add_generation_prompt = request.add_generation_prompt && !request.continue_final;
  if (request.continue_final) options.continued_field = "content";
  LOCKSTEP_TRY(options.variables_json, variables_of(request));
  auto rendered = text::render_chat(*chat, messages, std::move(options));
  if (!rendered.has_value()) return invalid_field("messages", rendered.error().message);
  return std::move(rendered).assume_value();
}

/// At most `most` ids.
ApiResult<Prompt> encode(std::string text, const ChatRequest& request, const ReadContext& context, size_t most) {
  const auto special = request.add_special_tokens ? text::SpecialTokens::kAdd : text::SpecialTokens::kOmit;
  auto ids = context.text->tokenizer().encode_within(text, special, most);
  if (!ids.has_value()) return invalid_field("messages", ids.error().message);
  if (!ids.value()) return prompt_exceeded(context.capacity, "messages");
  if (ids.value()->empty()) return invalid_field("messages", "messages: found no tokens, expected at least one");
  return Prompt{.ids = *std::move(ids).assume_value(), .text = std::move(text)};
}

/// The tools' constraint with the body's own one: the answer is either.
ApiResult<std::string> constraint_of(const ChatRequest& request, const OutputFormat& format, const std::string& own) {
  const std::string answer = own.empty() ? own : after_reasoning(format, own);
  if (!offers_tools(request)) return answer;
  const bool free = request.tool_choice == ToolChoice::kAuto;
  const ToolChoice choice = free && !own.empty() ? ToolChoice::kRequired : request.tool_choice;
  auto calls = tool_constraint(format, request.tools, choice, request.named, request.parallel);
  if (!calls.has_value()) return invalid_field("tools", "tools: " + calls.error().message);
  if (own.empty() || !free) return std::move(calls).assume_value();
  return to_line({{"type", "or"}, {"elements", Json::array({Json::parse(answer), Json::parse(calls.value())})}});
}

/// Special tokens may open calls and reasoning. The text of an end token is no part of the answer.
void read_output(const ChatRequest& request, const ReadContext& context, const OutputFormat& format,
                 Generation& generation) {
  ReadParts parts{.tools = offers_tools(request) && !format.tools.empty(),
                  .reasoning = request.reads_reasoning && !format.reasoning.empty()};
  if (parts.tools) parts.schemas = request.tools;
  if (!parts.tools && !parts.reasoning) return;
  generation.output = ReadOutput{format, std::move(parts)};
  if (generation.special_text) return;  // asked for by the client
  generation.special_text = true;
  for (const int32_t id : context.text->facts().end_ids) {
    generation.end_texts[id] = context.text->tokenizer().token_of(id).value_or("");
  }
}

}  // namespace

ApiResult<Prompt> chat_prompt(const ChatRequest& request, const ReadContext& context) {
  LOCKSTEP_TRY(std::string text, render(request, context));
  return encode(std::move(text), request, context, std::numeric_limits<size_t>::max());
}

ApiResult<void> prepare_chat(const ChatRequest& request, const ReadContext& context, const std::string& own,
                             Generation& generation) {
  LOCKSTEP_TRY(std::string text, render(request, context));
  OutputFormat format = detect_format(template_source(request, *context.text->chat()), text);
  if (offers_tools(request) && format.tools.empty()) {
    return invalid_field("tools", "tools: this model's chat template shows no format for tool calls; omit them");
  }
  if (request.continue_final) format.begins_in_reasoning = false;
  LOCKSTEP_TRY(generation.constraint, constraint_of(request, format, own));
  read_output(request, context, format, generation);
  LOCKSTEP_TRY(generation.prompts.emplace_back(),
               encode(std::move(text), request, context, static_cast<size_t>(context.capacity)));
  return ok();
}

}  // namespace lockstep::serve
