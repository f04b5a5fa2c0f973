#include "launcher/serve/output/call_syntax.h"

#include <algorithm>

namespace lockstep::serve {
namespace {

const std::string kObjectBegin = R"({"name": "@", "arguments": )";

CallSyntax hermes() {
  return {.name = "hermes",
          .openings = {"<tool_call>"},
          .closings = {"</tool_call>"},
          .dropped = {"<|im_end|>", "<|im_start|>", "<|endoftext|>"},
          .text = {.call_begin = "<tool_call>\n" + kObjectBegin, .call_end = "}\n</tool_call>", .separator = "\n"}};
}

CallSyntax llama3() {
  return {.name = "llama3",
          .openings = {"<|python_tag|>"},
          .bare = true,
          .dropped = {"<|python_tag|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|begin_of_text|>",
                      "<|start_header_id|>", "<|end_header_id|>"},
          .text = {.call_begin = R"({"name": "@", "parameters": )", .call_end = "}", .separator = "; "}};
}

const std::vector<std::string> kMistralSpecial = {"[TOOL_CALLS]", "</s>", "<s>", "[INST]", "[/INST]"};

CallSyntax mistral() {
  return {.name = "mistral",
          .body = CallBody::kNamed,  // and objects in a list
          .openings = {"[TOOL_CALLS]"},
          .dropped = kMistralSpecial,
          .text = {.list_begin = "[TOOL_CALLS] [",
                   .call_begin = kObjectBegin,
                   .call_end = "}",
                   .separator = ", ",
                   .list_end = "]"}};
}

CallSyntax mistral_args() {
  CallSyntax syntax = mistral();
  syntax.name = "mistral_args";
  syntax.text = {.call_begin = "[TOOL_CALLS]@[ARGS]"};
  return syntax;
}

CallSyntax phi() {
  return {.name = "phi",
          .openings = {"<|tool_call|>"},
          .closings = {"<|/tool_call|>"},
          .dropped = {"<|tool_call|>", "<|/tool_call|>", "<|end|>", "<|endoftext|>", "<|assistant|>", "<|user|>"},
          .text = {.list_begin = "<|tool_call|>[",
                   .call_begin = kObjectBegin,
                   .call_end = "}",
                   .separator = ", ",
                   .list_end = "]<|/tool_call|>"}};
}

CallSyntax deepseek() {
  return {.name = "deepseek",
          .body = CallBody::kNamed,
          .openings = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"},
          .closings = {"```", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"},
          .dropped = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>",
                      "<｜end▁of▁sentence｜>", "<｜begin▁of▁sentence｜>", "<｜Assistant｜>", "<｜User｜>"},
          .text = {.list_begin = "<｜tool▁calls▁begin｜>",
                   .call_begin = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>@\n```json\n",
                   .call_end = "\n```<｜tool▁call▁end｜>",
                   .separator = "\n",
                   .list_end = "<｜tool▁calls▁end｜>"}};
}

CallSyntax gemma() {
  return {.name = "gemma",
          .body = CallBody::kNamedEscaped,
          .openings = {"<start_function_call>"},
          .closings = {"<end_function_call>", "<start_function_response>"},
          .dropped = {"<start_function_call>", "<end_function_call>", "<start_function_response>", "<end_of_turn>",
                      "<start_of_turn>", "<eos>", "<bos>"},
          .text = {.call_begin = "<start_function_call>call:@", .call_end = "<end_function_call>"}};
}

CallSyntax qwen_xml() {
  return {.name = "qwen_xml",
          .body = CallBody::kXml,
          .openings = {"<tool_call>", "<function="},
          .closings = {"</tool_call>"},
          .dropped = {"<|im_end|>", "<|im_start|>", "<|endoftext|>"},
          .text = {
              .call_begin = "<tool_call>\n<function=@>\n", .call_end = "</function>\n</tool_call>", .separator = "\n"}};
}

bool take_front(std::string_view& text, std::string_view front) {
  if (!text.starts_with(front)) return false;
  text.remove_prefix(front.size());
  return true;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \n\r\t";
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

bool is_name_byte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') || byte == '_' ||
         byte == '-' || byte == '.' || byte == ':' || byte == '/';
}

}  // namespace

const CallSyntax* find_call_syntax(std::string_view name) {
  static const std::vector<CallSyntax> kTable = {hermes(), llama3(),   mistral(), mistral_args(),
                                                 phi(),    deepseek(), gemma(),   qwen_xml()};
  const auto found = std::find_if(kTable.begin(), kTable.end(), [&](const auto& row) { return row.name == name; });
  return found == kTable.end() ? nullptr : &*found;
}

std::optional<std::string> name_before_arguments(std::string_view text) {
  text = trimmed(text);
  take_front(text, "<function=");
  take_front(text, "call:");
  take_front(text, "<｜tool▁call▁begin｜>");
  take_front(text, "function<｜tool▁sep｜>");
  for (const std::string_view end : {"[CALL_ID]", "[ARGS]", "```json", "<｜tool▁sep｜>"}) {
    text = text.substr(0, text.find(end));
  }
  text = trimmed(text);
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_name_byte)) return std::nullopt;
  return std::string(text);
}

}  // namespace lockstep::serve
