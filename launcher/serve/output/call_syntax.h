// The table of the ways in which models write tool calls.
//
//   hermes        <tool_call>{"name": "f", "arguments": {…}}</tool_call>               Qwen, SmolLM, Hermes
//   llama3        {"name": "f", "parameters": {…}}      also behind <|python_tag|>      Llama 3.1 and later
//   mistral       [TOOL_CALLS] [{"name": "f", "arguments": {…}}, …]
//   mistral_args  [TOOL_CALLS]f[ARGS]{…}                                                Mistral from tokenizer v11
//   phi           <|tool_call|>[{"name": "f", "arguments": {…}}]<|/tool_call|>          Phi-4-mini
//   deepseek      <｜tool▁call▁begin｜>function<｜tool▁sep｜>f, the arguments in a fence    DeepSeek-R1's distillations
//   gemma         <start_function_call>call:f{key:<escape>text<escape>}<end_function_call>
//   qwen_xml      <tool_call><function=f><parameter=key>text</parameter></function></tool_call>          Qwen3-Coder
//   harmony       <|channel|>commentary to=functions.f <|message|>{…}<|call|>           gpt-oss
//
// The sources are the chat templates of the models. All but harmony have one reader (TextReader).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::serve {

/// Where the function's name is.
enum class CallBody {
  kObject,        // in a JSON object beside the arguments
  kNamed,         // before the arguments, which are JSON
  kNamedEscaped,  // before the arguments, which are in Gemma's notation
  kXml,           // in a tag around the arguments, each in another one
};

/// How a constraint writes calls: `list_begin`, calls with `separator` between them, `list_end`. "@" is the name.
struct CallText {
  std::string list_begin, call_begin, call_end, separator, list_end;
};

struct CallSyntax {
  std::string name;
  CallBody body = CallBody::kObject;
  std::vector<std::string> openings;  // each begins a call, or a list of calls
  std::vector<std::string> closings;  // what follows a call; no part of the content
  bool bare = false;                  // an object at the beginning of the text may be a call
  std::vector<std::string> dropped;   // special tokens that are no part of a call and no content
  CallText text;
};

/// Null for an unknown name, and for "harmony".
const CallSyntax* find_call_syntax(std::string_view name);

/// The function's name in what is between an opening and the arguments: "f[ARGS]"; none: this is no call.
std::optional<std::string> name_before_arguments(std::string_view text);

}  // namespace lockstep::serve
