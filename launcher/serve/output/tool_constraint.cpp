#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "launcher/serve/output/call_syntax.h"
#include "launcher/serve/output/constraint_parts.h"
#include "launcher/serve/output/formats.h"
#include "launcher/serve/output/gemma_constraint.h"
#include "launcher/serve/output/output_reader.h"

namespace lockstep::serve {
namespace {

constexpr std::string_view kAnalysis = "<|channel|>analysis<|message|>";

const CallText kHarmonyText = {.call_begin = "<|channel|>commentary to=functions.@ <|constrain|>json<|message|>"};

Error no_tools(const OutputFormat& format) {
  return {ErrorKind::kUnsupported,
          "[launcher/serve/output] cannot constrain tool calls: found " +
              (format.tools.empty() ? "a chat template without tools" : "the format \"" + format.tools + "\"") +
              ", expected a format for calls; set tool_choice to \"none\" or \"auto\""};
}

Error not_a_schema(const Tool& tool) {
  return {ErrorKind::kInvalidArgument, "[launcher/serve/output] cannot read the parameters of the function \"" +
                                           tool.name +
                                           "\": expected a JSON schema of type \"object\"; correct the tool"};
}

Error unknown_tool(std::string_view name) {
  return {ErrorKind::kInvalidArgument, "[launcher/serve/output] cannot choose a tool: found the name \"" +
                                           std::string(name) +
                                           "\", expected a function among the tools; name one of them"};
}

bool takes_nothing(const Json& schema) {
  const auto is_empty = [&](const char* key) { return !schema.contains(key) || schema[key].empty(); };
  const bool open = schema.contains("additionalProperties") && schema["additionalProperties"] != Json(false);
  return is_empty("properties") && is_empty("patternProperties") && !open && !schema.contains("$ref") &&
         !schema.contains("anyOf") && !schema.contains("oneOf") && !schema.contains("allOf");
}

/// The parameters of a tool as the schema of an object.
Result<Json> schema_of(const Tool& tool) {
  Json schema = tool.parameters.empty() ? Json::object() : Json::parse(tool.parameters, nullptr, false);
  if (schema.is_null()) schema = Json::object();
  if (!schema.is_object()) return not_a_schema(tool);
  if (schema.contains("type") && schema["type"] != Json("object")) return not_a_schema(tool);
  const bool composed =
      schema.contains("$ref") || schema.contains("anyOf") || schema.contains("oneOf") || schema.contains("allOf");
  if (!composed) schema["type"] = "object";
  return schema;
}

Result<Json> arguments_of(CallBody body, const Tool& tool, bool by_schema) {
  LOCKSTEP_TRY(Json schema, schema_of(tool));
  const bool is_xml = body == CallBody::kXml;
  if (takes_nothing(schema)) return is_xml ? regex("\\n{0,1}") : const_text("{}");
  if (body == CallBody::kNamedEscaped) {
    LOCKSTEP_TRY(const std::string constraint, gemma_arguments_constraint(schema.dump()));
    return Json::parse(constraint);
  }
  Json arguments = by_schema ? json_schema(std::move(schema)) : Json{{"type", "any_json"}};
  if (!is_xml) return arguments;
  arguments["style"] = "qwen_xml";
  return sequence({std::move(arguments), regex("\\n{0,1}")});
}

std::string with_name(std::string pattern, const std::string& name) {
  const size_t at = pattern.find('@');
  return at == std::string::npos ? pattern : pattern.replace(at, 1, name);
}

Result<Json> call_tags(CallBody body, const CallText& form, const std::vector<Tool>& tools, bool by_schema) {
  Json tags = Json::array();
  for (const Tool& tool : tools) {
    LOCKSTEP_TRY(Json arguments, arguments_of(body, tool, by_schema || tool.strict));
    tags.push_back(tag(with_name(form.call_begin, tool.name), std::move(arguments), form.call_end));
  }
  return tags;
}

/// One call, or more.
Json calls(const CallText& form, Json tags, bool parallel) {
  Json list = {{"type", "tags_with_separator"},
               {"tags", std::move(tags)},
               {"separator", form.separator},
               {"at_least_one", true},
               {"stop_after_first", !parallel}};
  return form.list_begin.empty() ? list : tag(form.list_begin, std::move(list), form.list_end);
}

/// Free text in which the beginning of a call leads to a whole one.
Json free_text_with_calls(const CallText& form, const std::string& trigger, Json tags, bool parallel) {
  if (!form.list_begin.empty()) tags = Json::array({calls(form, std::move(tags), parallel)});
  return {{"type", "triggered_tags"},
          {"triggers", Json::array({trigger})},
          {"tags", std::move(tags)},
          {"at_least_one", false},
          {"stop_after_first", !parallel}};
}

/// What begins a call of this format and nothing else. A bare object may be an answer, too: llama3's calls are
/// recognized by their tag.
std::string trigger_of(const CallSyntax* syntax) {
  return syntax == nullptr ? "<|channel|>commentary to=functions." : syntax->openings.front();
}

}  // namespace

std::string after_reasoning(const OutputFormat& format, const std::string& constraint) {
  if (format.reasoning.empty()) return constraint;
  Json answer = Json::parse(constraint, nullptr, /*allow_exceptions=*/false);
  if (format.tools == kHarmony) {
    Json reasoned = sequence({tag(kAnalysis, any_text(), "<|end|>"), const_text("<|start|>assistant"), answer});
    return either({std::move(reasoned), std::move(answer)}).dump();
  }
  const std::string end = closing_tag(format.reasoning);
  const Json blanks = regex("\\n{0,2}");
  if (format.begins_in_reasoning) return sequence({tag("", any_text(), end), blanks, std::move(answer)}).dump();
  Json reasoned = sequence({tag(format.reasoning, any_text(), end), blanks, answer});
  return either({std::move(reasoned), std::move(answer)}).dump();
}

Result<std::string> tool_constraint(const OutputFormat& format, const std::vector<Tool>& tools, ToolChoice choice,
                                    std::string_view named, bool parallel) {
  if (choice == ToolChoice::kNone || tools.empty()) return std::string();
  const bool is_harmony = format.tools == kHarmony;
  const CallSyntax* syntax = find_call_syntax(format.tools);
  if (!is_harmony && syntax == nullptr) return no_tools(format);
  const CallBody body = is_harmony ? CallBody::kObject : syntax->body;
  // There is no form for any arguments: the schema of a tool that is not strict may be beyond this notation.
  if (body == CallBody::kNamedEscaped && choice == ToolChoice::kAuto) return std::string();

  std::vector<Tool> chosen = tools;
  if (choice == ToolChoice::kNamed) {
    std::erase_if(chosen, [&](const Tool& tool) { return tool.name != named; });
    if (chosen.empty()) return unknown_tool(named);
    parallel = false;  // one call of that tool
  }
  CallText form = is_harmony ? kHarmonyText : syntax->text;
  const std::string trigger = trigger_of(syntax);
  const bool automatic = choice == ToolChoice::kAuto;
  if (automatic && !is_harmony && syntax->bare) form.call_begin = trigger + form.call_begin;
  LOCKSTEP_TRY(Json tags, call_tags(body, form, chosen, !automatic));
  if (automatic) {
    const std::string constraint = free_text_with_calls(form, trigger, std::move(tags), parallel).dump();
    return format.begins_in_reasoning ? after_reasoning(format, constraint) : constraint;
  }
  // A separator would be an end of the turn: gpt-oss writes one call a turn.
  return after_reasoning(format, calls(form, std::move(tags), parallel && !is_harmony).dump());
}

}  // namespace lockstep::serve
