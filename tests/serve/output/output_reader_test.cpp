#include "launcher/serve/output/output_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::serve {
namespace {

using Kind = OutputPiece::Kind;

/// Pieces as text: "reason{…}", content as it is, "[f ARGUMENTS]" for a call, "[f ARGUMENTS" for one without an end.
void show(std::string& shown, Kind& last, const std::vector<OutputPiece>& pieces) {
  for (const OutputPiece& piece : pieces) {
    const bool reasons = piece.kind == Kind::kReasoning;
    if (last == Kind::kReasoning && !reasons) shown += "}";
    if (reasons && last != Kind::kReasoning) shown += "reason{";
    if (piece.kind == Kind::kToolBegin) shown += "[" + std::to_string(piece.tool) + piece.text + " ";
    if (piece.kind == Kind::kToolEnd) shown += "]";
    if (piece.kind != Kind::kToolBegin) shown += piece.text;
    last = piece.kind;
  }
}

std::string read(const OutputFormat& format, const std::string& text, const std::vector<size_t>& cuts = {},
                 ReadParts parts = {.tools = true, .reasoning = true}) {
  const auto reader = make_reader(format, parts);
  std::string shown;
  Kind last = Kind::kContent;
  size_t from = 0;
  for (const size_t cut : cuts) {
    show(shown, last, reader->put(text.substr(from, cut - from)));
    from = cut;
  }
  show(shown, last, reader->put(text.substr(from)));
  show(shown, last, reader->finish());
  return last == Kind::kReasoning ? shown + "}" : shown;
}

std::string read(const char* tools, const std::string& text) {
  return read(OutputFormat{.tools = tools, .reasoning = "<think>"}, text);
}

struct Row {
  const char* tools;
  std::string text;
  std::string read;
};

std::vector<Row> rows() {
  return {
      // hermes
      {"hermes", "Hello.\n", "Hello.\n"},
      {"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>", "[0f {\"x\": 1}]"},
      {"hermes", "Wait.<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>", "Wait.[0f {}]"},
      {"hermes",
       "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\n<tool_call>{\"name\": \"g\", \"arguments\": "
       "{\"a\": [1, {\"b\": null}]}}</tool_call>",
       "[0f {}][1g {\"a\": [1, {\"b\": null}]}]"},
      {"hermes", "<tool_call>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}]</tool_call>",
       "[0f {}][1g {}]"},
      {"hermes", "<tool_call>{\"arguments\": {\"x\": 1}, \"name\": \"f\"}</tool_call>", "[0f {\"x\": 1}]"},
      {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"x\\\": 1}\"}</tool_call>", "[0f {\"x\": 1}]"},
      {"hermes", "<tool_call>{\"name\": \"f\"}</tool_call>", "[0f {}]"},
      {"hermes", "<tool_call>{\"name\": \"f\"}\n</tool", "[0f {}]"},
      {"hermes", "<tool_call>{\"name\": \"f\"}</tool_call> </tool_x", "[0f {}] </tool_x"},
      {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call>", "[0f {}]"},
      {"hermes", "<tool_call>{\"name\": \"f{\", \"arguments\": {\"s\": \"a}\\\"{\"}}</tool_call> Done.",
       "[0f{ {\"s\": \"a}\\\"{\"}] Done."},
      {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"two\nlines\"}}</tool_call>",
       "[0f {\"s\": \"two\\nlines\"}]"},
      // not a call
      {"hermes", "<tool_call>nothing</tool_call>", "<tool_call>nothing</tool_call>"},
      {"hermes", "a <tool_call> <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", "a <tool_call> [0f {}]"},
      {"hermes", "<tool_call>{\"city\": 1}</tool_call>", "<tool_call>{\"city\": 1}</tool_call>"},
      {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": [1]}",
       "<tool_call>{\"name\": \"f\", \"arguments\": [1]}"},
      {"hermes", "x </tool_call> <tool", "x </tool_call> <tool"},
      {"hermes", "<tool_call>{\"na", "<tool_call>{\"na"},
      // the answer ends, or the text turns invalid, inside a call
      {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": \"ab", "[0f {\"x\": \"ab]"},
      {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": oops", "[0f {\"x\": ]oops"},
      // reasoning
      {"hermes", "<think>\nLet me see.\n</think>\n\nYes.", "reason{Let me see.}Yes."},
      {"hermes", "<think>\n\n</think>\n\nYes.", "Yes."},
      {"hermes", "<think>a\nb", "reason{a\nb}"},
      {"hermes", "<think>hm</think><tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", "reason{hm}[0f {}]"},
      {"hermes", "<think>is <tool_call> it</think>No.", "reason{is <tool_call> it}No."},
      {"hermes", "The tag <think> opens.", "The tag <think> opens."},
      // llama3
      {"llama3", "{\"name\": \"f\", \"parameters\": {\"x\": 1}}<|eot_id|>", "[0f {\"x\": 1}]"},
      {"llama3", "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}<|eom_id|>",
       "[0f {}][1g {}]"},
      {"llama3", "{\"name\": \"Bob\", \"age\": 3}", "{\"name\": \"Bob\", \"age\": 3}"},
      {"llama3", "{\"name\": \"Bob\"}<|eot_id|>", "{\"name\": \"Bob\"}"},
      {"llama3", "It is {\"name\": \"f\", \"parameters\": {}}.", "It is {\"name\": \"f\", \"parameters\": {}}."},
      {"llama3", "<|python_tag|>f.call(x=1)<|eom_id|>", "f.call(x=1)"},
      // mistral
      {"mistral", "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"x\": 1}, \"id\": \"abc\"}]</s>",
       "[0f {\"x\": 1}]"},
      {"mistral", "Sure.[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}]",
       "Sure.[0f {}][1g {}]"},
      {"mistral_args", "[TOOL_CALLS]f[ARGS]{\"x\": 1}[TOOL_CALLS]g[CALL_ID]abc[ARGS]{}</s>", "[0f {\"x\": 1}][1g {}]"},
      {"mistral_args", "[TOOL_CALLS]f{\"x\": 1}", "[0f {\"x\": 1}]"},
      {"mistral_args", "[1] is a list</s>", "[1] is a list"},
      // phi
      {"phi", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"x\": 1}}]<|/tool_call|><|end|>", "[0f {\"x\": 1}]"},
      {"phi",
       "<|tool_call|>[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": "
       "{\"x\":1}}}]<|/tool_call|>",
       "[0f {\"x\":1}]"},
      // deepseek
      {"deepseek",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"x\": "
       "1}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜>"
       "<｜tool▁calls▁end｜><｜end▁of▁sentence｜>",
       "[0f {\"x\": 1}][1g {}]"},
      {"deepseek", "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"x\": 1}<｜tool▁call▁end｜>", "[0f {\"x\": 1}]"},
      {"deepseek", "```json\n{}\n```", "```json\n{}\n```"},
      // gemma
      {"gemma",
       "<start_function_call>call:f{city:<escape>R\"<m<escape>,days:[1,-2.5],o:{k:true}}<end_function_call>"
       "<start_function_response>",
       "[0f {\"city\":\"R\\\"<m\",\"days\":[1,-2.5],\"o\":{\"k\":true}}]"},
      {"gemma", "<start_function_call>call:f{}<end_function_call>", "[0f {}]"},
      {"gemma", "<start_function_call>call:f{unit:celsius}<end_function_call>", "[0f {\"unit\":\"celsius\"}]"},
      // qwen_xml
      {"qwen_xml",
       "I look.\n<tool_call>\n<function=f>\n<parameter=city>\nSt. \"Ives\"\n</parameter>\n<parameter=note>\ntwo\n"
       "lines </b>\n</parameter>\n</function>\n</tool_call><|im_end|>",
       "I look.\n[0f {\"city\":\"St. \\\"Ives\\\"\",\"note\":\"two\\nlines </b>\"}]"},
      {"qwen_xml", "<tool_call><function=f><parameter=a>1</parameter></function></tool_call>", "[0f {\"a\":\"1\"}]"},
      {"qwen_xml", "<tool_call>\n<function=f>\n</function>\n</tool_call>", "[0f {}]"},
      {"qwen_xml",
       "<tool_call>\n<function=f>\n</function>\n</tool_call>\n<tool_call>\n<function=g>\n<parameter=x>\n\n"
       "</parameter>\n</function>\n</tool_call>",
       "[0f {}][1g {\"x\":\"\"}]"},
      {"qwen_xml", "<function=f>\n<parameter=x>\ny\n</parameter>\n</function>", "[0f {\"x\":\"y\"}]"},
      {"qwen_xml", "<tool_call>{\"name\": \"f\"}</tool_call>", "<tool_call>{\"name\": \"f\"}</tool_call>"},
      {"qwen_xml", "<tool_call>\n<func", "<tool_call>\n<func"},
      {"qwen_xml", "a <function= b", "a <function= b"},
      {"qwen_xml", "<function=f>\n<parameter=x>\nab", "[0f {\"x\":\"ab]"},
      {"qwen_xml", "<function=f>\nand so on", "[0f {]and so on"},
      // harmony
      {"harmony", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>",
       "reason{Hm.}Yes."},
      {"harmony",
       "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.f "
       "<|constrain|>json<|message|>{\"x\": 1}<|call|>",
       "reason{Hm.}[0f {\"x\": 1}]"},
      {"harmony", " to=functions.f<|channel|>commentary json<|message|>{\"x\": 1}<|call|>", "[0f {\"x\": 1}]"},
      {"harmony", "<|channel|>commentary<|message|>First I look.<|end|>", "First I look."},
      {"harmony", "<|channel|>commentary to=functions.f<|message|>{\"x\": <|call|>", "[0f {\"x\": ]"},
      {"harmony", "<|channel|>commentary to=functions.f<|message|>code<|call|>", "code"},
      {"harmony", "Plain text <b>.", "Plain text <b>."},
      // a format without tools
      {"", "<tool_call>{\"name\": \"f\", \"arguments\": {}}", "<tool_call>{\"name\": \"f\", \"arguments\": {}}"},
  };
}

TEST(OutputReader, ReadsEveryFormat) {
  for (const Row& row : rows()) EXPECT_EQ(read(row.tools, row.text), row.read) << row.tools << ": " << row.text;
}

TEST(OutputReader, GivesTheSamePiecesHoweverTheTextIsCut) {
  for (const Row& row : rows()) {
    const OutputFormat format{.tools = row.tools, .reasoning = "<think>"};
    std::vector<size_t> every;
    for (size_t cut = 1; cut < row.text.size(); ++cut) {
      every.push_back(cut);
      EXPECT_EQ(read(format, row.text, {cut}), row.read) << row.text << " cut at " << cut;
    }
    EXPECT_EQ(read(format, row.text, every), row.read) << row.text;
  }
}

TEST(OutputReader, BeginsInReasoningWhenThePromptEndsWithTheTag) {
  const OutputFormat format{.tools = "hermes", .reasoning = "<think>", .begins_in_reasoning = true};
  EXPECT_EQ(read(format, "\nHm.</think>\nYes."), "reason{Hm.}Yes.");
  EXPECT_EQ(read(format, "Hm.</think>Yes.", {}, {.tools = true}), "Hm.</think>Yes.");
}

TEST(OutputReader, PassesAllTextOnWhenItReadsNeither) {
  const OutputFormat format{.tools = "llama3", .reasoning = "<think>"};
  const std::string text = "<think>a</think>{\"name\": \"f\", \"parameters\": {}}<|eot_id|>";
  EXPECT_EQ(read(format, text, {3}, {}), text);
}

TEST(OutputReader, DropsSpecialTokensOfTheFormatAlsoWhenItReadsReasoningOnly) {
  const OutputFormat format{.tools = "llama3", .reasoning = "<think>"};
  const std::string call = "{\"name\": \"f\", \"parameters\": {}}";
  EXPECT_EQ(read(format, "<think>a</think>" + call + "<|eot_id|>", {}, {.reasoning = true}), "reason{a}" + call);
}

TEST(OutputReader, GivesParametersWithoutTypesThoseOfTheToolsSchemas) {
  const Tool tool{.name = "f",
                  .parameters = R"({"$defs": {"unit": {"enum": ["c", "f"]}}, "properties": {"days": {"type": "integer"},
                    "share": {"type": "number"}, "now": {"type": "boolean"}, "code": {"type": "string"},
                    "list": {"type": "array"}, "unit": {"$ref": "#/$defs/unit"},
                    "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}})"};
  const auto read_one = [&](const std::string& name, const std::string& value) {
    const std::string text = "<function=f><parameter=" + name + ">\n" + value + "\n</parameter></function>";
    const std::string shown = read({.tools = "qwen_xml"}, text, {}, {.tools = true, .schemas = {tool}});
    return shown.substr(name.size() + 8, shown.size() - name.size() - 10);  // behind "[0f {\"NAME\":"
  };
  EXPECT_EQ(read_one("days", "3"), "3");
  EXPECT_EQ(read_one("days", "three"), "\"three\"");
  EXPECT_EQ(read_one("share", "2"), "2");
  EXPECT_EQ(read_one("now", "True"), "true");
  EXPECT_EQ(read_one("code", "3"), "\"3\"");
  EXPECT_EQ(read_one("code", " x\n"), "\" x\\n\"");
  EXPECT_EQ(read_one("list", "[1, {\"a\": 2}]"), "[1, {\"a\": 2}]");
  EXPECT_EQ(read_one("unit", "  c "), "\"c\"");
  EXPECT_EQ(read_one("maybe", "None"), "null");
  EXPECT_EQ(read_one("other", "3"), "\"3\"");
}

TEST(OutputReader, PassesArgumentsOnAsTheyGrow) {
  const auto reader = make_reader({.tools = "hermes"}, {.tools = true});
  EXPECT_TRUE(reader->put("<tool_call>\n{\"name\": \"f\", ").empty());
  using Pieces = std::vector<OutputPiece>;
  EXPECT_EQ(reader->put("\"arguments\": {\"x\""),
            (Pieces{{Kind::kToolBegin, "f", 0}, {Kind::kToolArguments, "{\"x\"", 0}}));
  EXPECT_EQ(reader->put(": 1"), (Pieces{{Kind::kToolArguments, ": 1", 0}}));
  EXPECT_EQ(reader->put("}}"), (Pieces{{Kind::kToolArguments, "}", 0}, {Kind::kToolEnd, "", 0}}));
}

TEST(OutputReader, WithholdsOnlyWhatMayBecomeATag) {
  const auto reader = make_reader({.tools = "hermes"}, {.tools = true});
  const auto text = [](const std::vector<OutputPiece>& pieces) { return pieces.empty() ? "" : pieces[0].text; };
  EXPECT_EQ(text(reader->put("a <to")), "a ");
  EXPECT_EQ(text(reader->put("ast> b")), "<toast> b");
}

TEST(OutputReader, ReadsDeepBracketsWithoutACall) {
  const std::string text = "<tool_call>{\"arguments\": " + std::string(5000, '[');
  EXPECT_EQ(read("hermes", text), text);
}

}  // namespace
}  // namespace lockstep::serve
