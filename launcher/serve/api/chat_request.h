// A conversation as a request: messages and tools ─► prompt, constraint, what is read from the answer.
//
// Protocols with conversations fill a ChatRequest from their own fields; the rest is the same for all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/serve/api/body_field.h"
#include "launcher/serve/api/protocol.h"
#include "runtime/text/chat_template.h"

namespace lockstep::serve {

struct ChatRequest {
  std::vector<text::Message> messages;
  std::vector<Tool> tools;
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string named;           // with kNamed
  bool parallel = true;        // more than one call
  std::string variables = {};  // of the template, as a JSON object
  bool add_generation_prompt = true;
  bool continue_final = false;  // the answer continues the last message
  bool add_special_tokens = false;
  bool reads_reasoning = true;  // apart from the content
};

/// `messages` of a chat: all roles, content as text or parts, tool calls. Fails naming the message.
ApiResult<std::vector<text::Message>> read_messages(const BodyField& field);

/// The text of a message's content: a text, or a list of text parts, which are joined by new lines.
ApiResult<std::string> read_content(const BodyField& field);

/// `tools` of a body: at most 512, none if absent.
ApiResult<std::vector<BodyField>> tool_elements(const BodyField& body);

/// A tool that is a function without an object "function" around its fields. The JSON schema is in the field `schema`,
/// which may be absent. Templates see OpenAI's form with all keys, in the usual order.
ApiResult<Tool> read_flat_tool(const BodyField& object, std::string_view schema);

/// `tools` and `tool_choice` of a chat. Tools are shown as they were sent, which is what transformers does.
ApiResult<void> read_tools(const BodyField& body, ChatRequest& request);

/// The prompt of a conversation, however long.
ApiResult<Prompt> chat_prompt(const ChatRequest& request, const ReadContext& context);

/// Sets prompt, constraint (`own`: the one that the body asks for), and what is read from the answer. Fails with code
/// "context_length_exceeded" when the prompt has more ids than the capacity.
ApiResult<void> prepare_chat(const ChatRequest& request, const ReadContext& context, const std::string& own,
                             Generation& generation);

}  // namespace lockstep::serve
