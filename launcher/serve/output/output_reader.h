// Reads a model's text as it grows: reasoning, answer, tool calls.
//
//   "<think>…</think>Let me see.<tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>"
//        reasoning      content            tool_begin f, tool_arguments "{"x": 1}", tool_end
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/result.h"

namespace lockstep::serve {

/// A piece of an answer. Concatenated, pieces of one kind are the whole text of that kind.
struct OutputPiece {
  enum class Kind { kReasoning, kContent, kToolBegin, kToolArguments, kToolEnd };
  Kind kind = Kind::kContent;
  std::string text;  // kToolBegin: the function's name; kToolArguments: JSON text
  int tool = 0;      // number of the call, from 0

  friend bool operator==(const OutputPiece&, const OutputPiece&) = default;
};

/// One answer's reader. Text that never becomes a valid call is content, whole and unchanged.
class OutputReader {
 public:
  virtual ~OutputReader() = default;
  virtual std::vector<OutputPiece> put(std::string_view text) = 0;
  /// What was withheld. Nothing may be put after it.
  virtual std::vector<OutputPiece> finish() = 0;
};

/// How a model writes tool calls and reasoning: "hermes" (Qwen, SmolLM), "llama3", "mistral", "gemma", "qwen_xml",
/// "harmony" (gpt-oss) … A value.
struct OutputFormat {
  std::string tools;                 // empty: this model has no format for tools
  std::string reasoning;             // opening tag, for example "<think>"; empty: none
  bool begins_in_reasoning = false;  // the generation prompt ends with the opening tag

  friend bool operator==(const OutputFormat&, const OutputFormat&) = default;
};

/// A tool of a request.
struct Tool {
  std::string name;
  std::string parameters;  // JSON schema as text; empty: no parameters
  bool strict = false;
  std::string shown = {};  // what the template shows: OpenAI's form, as JSON text
};

/// What the reader looks for. A reader of neither passes all text on as content.
struct ReadParts {
  bool tools = false;
  bool reasoning = false;
  std::vector<Tool> schemas = {};  // of the tools, for formats whose arguments have no types
};

/// The format that a chat template shows. `template_source` is Jinja; `rendered` is a generation prompt made with it.
OutputFormat detect_format(std::string_view template_source, std::string_view rendered);

/// Tags may be special tokens: a request whose answer is read sets `special_text`. The reader drops the format's
/// special tokens that are no part of a call.
std::unique_ptr<OutputReader> make_reader(const OutputFormat& format, ReadParts parts);

enum class ToolChoice { kNone, kAuto, kRequired, kNamed };

/// The constraint (runtime/constraint) that makes a model write calls of these tools in this format: for kRequired and
/// kNamed always one, or more where `parallel`; for kAuto free text in which each call that begins is well-formed.
/// Arguments fit the tool's schema; for kAuto without `strict` they are any JSON object. Empty: none is needed. Fails
/// with `kUnsupported` where the format has no tools or its calls cannot be constrained, and with `kInvalidArgument`
/// when a schema is no JSON object or `named` is no tool.
Result<std::string> tool_constraint(const OutputFormat& format, const std::vector<Tool>& tools, ToolChoice choice,
                                    std::string_view named, bool parallel);

/// `constraint` (JSON, not empty) for the answer of a model that may reason first: reasoning is free.
std::string after_reasoning(const OutputFormat& format, const std::string& constraint);

}  // namespace lockstep::serve
