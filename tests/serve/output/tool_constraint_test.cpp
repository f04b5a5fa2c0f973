#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "launcher/serve/output/output_reader.h"

namespace lockstep::serve {
namespace {

using Json = nlohmann::ordered_json;

const Tool kWeather{
    .name = "weather",
    .parameters = R"({"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "number"}}})"};
const Tool kStrict{.name = "strict", .parameters = kWeather.parameters, .strict = true};
const Tool kTime{.name = "time"};

Json constraint(const OutputFormat& format, const std::vector<Tool>& tools, ToolChoice choice,
                std::string_view named = "", bool parallel = true) {
  return Json::parse(tool_constraint(format, tools, choice, named, parallel).value());
}

TEST(ToolConstraint, NeedsNoneWithoutToolsToCall) {
  EXPECT_EQ(tool_constraint({.tools = "hermes"}, {kTime}, ToolChoice::kNone, "", true).value(), "");
  EXPECT_EQ(tool_constraint({.tools = "hermes"}, {}, ToolChoice::kAuto, "", true).value(), "");
}

TEST(ToolConstraint, RequiresACallOfOneOfTheTools) {
  const Json list = constraint({.tools = "hermes"}, {kWeather, kTime}, ToolChoice::kRequired);
  EXPECT_EQ(list["type"], "tags_with_separator");
  EXPECT_EQ(list["at_least_one"], true);
  EXPECT_EQ(list["stop_after_first"], false);
  EXPECT_EQ(list["tags"].size(), 2u);
  EXPECT_EQ(list["tags"][0]["begin"], "<tool_call>\n{\"name\": \"weather\", \"arguments\": ");
  EXPECT_EQ(list["tags"][0]["end"], "}\n</tool_call>");
  EXPECT_EQ(list["tags"][0]["content"]["type"], "json_schema");
}

TEST(ToolConstraint, AllowsOneCallOnlyWithoutParallel) {
  const Json list = constraint({.tools = "hermes"}, {kTime}, ToolChoice::kRequired, "", /*parallel=*/false);
  EXPECT_EQ(list["stop_after_first"], true);
}

TEST(ToolConstraint, KeepsTheOrderOfASchemasProperties) {
  const Json list = constraint({.tools = "hermes"}, {kWeather}, ToolChoice::kRequired);
  EXPECT_EQ(list["tags"][0]["content"]["json_schema"]["properties"].begin().key(), "z");
}

TEST(ToolConstraint, GivesAFunctionWithoutParametersAnEmptyObject) {
  const Tool empty{.name = "empty", .parameters = R"({"type": "object", "properties": {}})"};
  for (const Tool& tool : {kTime, empty}) {
    const Json list = constraint({.tools = "hermes"}, {tool}, ToolChoice::kRequired);
    EXPECT_EQ(list["tags"][0]["content"], (Json{{"type", "const_string"}, {"value", "{}"}}));
  }
}

TEST(ToolConstraint, NamesTheChosenToolOnly) {
  const Json list = constraint({.tools = "hermes"}, {kWeather, kTime}, ToolChoice::kNamed, "time");
  EXPECT_EQ(list["tags"].size(), 1u);
  const auto unknown = tool_constraint({.tools = "hermes"}, {kTime}, ToolChoice::kNamed, "date", true);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(unknown.error().message, testing::HasSubstr("\"date\""));
}

TEST(ToolConstraint, LeavesTextFreeUntilACallBegins) {
  const Json text = constraint({.tools = "hermes"}, {kWeather, kStrict}, ToolChoice::kAuto);
  EXPECT_EQ(text["type"], "triggered_tags");
  EXPECT_EQ(text["triggers"], Json::array({"<tool_call>"}));
  EXPECT_EQ(text["at_least_one"], false);
  EXPECT_EQ(text["tags"][0]["content"]["type"], "any_json");
  EXPECT_EQ(text["tags"][1]["content"]["type"], "json_schema");
}

TEST(ToolConstraint, BeginsEachTriggeredTagWithItsTrigger) {
  for (const char* tools : {"hermes", "llama3", "mistral", "mistral_args", "phi", "deepseek", "qwen_xml", "harmony"}) {
    const Json text = constraint({.tools = tools}, {kWeather}, ToolChoice::kAuto);
    const std::string trigger = text["triggers"][0];
    for (const Json& tag : text["tags"]) EXPECT_THAT(tag["begin"].get<std::string>(), testing::StartsWith(trigger));
  }
}

/// The text of the calls that a constraint allows, with `arguments` in place of their content.
std::string text_of(const Json& node, const std::string& arguments) {
  if (node["type"] == "tags_with_separator") {
    std::string text;
    for (const Json& tag : node["tags"])
      text += (text.empty() ? "" : node["separator"].get<std::string>()) + text_of(tag, arguments);
    return text;
  }
  if (node["type"] != "tag") return arguments;
  return node["begin"].get<std::string>() + text_of(node["content"], arguments) + node["end"].get<std::string>();
}

TEST(ToolConstraint, DescribesCallsThatTheReaderReads) {
  for (const char* tools : {"hermes", "llama3", "mistral", "mistral_args", "phi", "deepseek", "harmony"}) {
    const bool several = std::string(tools) != "harmony";
    const std::vector<Tool> called = several ? std::vector{kWeather, kStrict} : std::vector{kWeather};
    const std::string text = text_of(constraint({.tools = tools}, called, ToolChoice::kRequired), "{\"z\": 1}");
    const auto reader = make_reader({.tools = tools}, {.tools = true});
    std::string read;
    for (const OutputPiece& piece : reader->put(text)) read += piece.text + "|";
    for (const OutputPiece& piece : reader->finish()) read += piece.text + "|";
    EXPECT_EQ(read, several ? "weather|{\"z\": 1}||strict|{\"z\": 1}||" : "weather|{\"z\": 1}||") << text;
  }
}

TEST(ToolConstraint, RefusesAFormatWithoutTools) {
  const auto refused = tool_constraint({}, {kTime}, ToolChoice::kRequired, "", true);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
}

TEST(ToolConstraint, RefusesParametersThatAreNoObject) {
  for (const char* schema : {"{\"type\": \"string\"}", "[1]", "{"}) {
    const Tool tool{.name = "f", .parameters = schema};
    const auto refused = tool_constraint({.tools = "hermes"}, {tool}, ToolChoice::kRequired, "", true);
    ASSERT_FALSE(refused.has_value()) << schema;
    EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
  }
}

TEST(AfterReasoning, LeavesReasoningFree) {
  const std::string answer = R"({"type":"any_json"})";
  EXPECT_EQ(after_reasoning({}, answer), answer);
  const Json begun = Json::parse(after_reasoning({.reasoning = "<think>", .begins_in_reasoning = true}, answer));
  EXPECT_EQ(begun["type"], "sequence");
  EXPECT_EQ(begun["elements"][0]["end"], "</think>");
  EXPECT_EQ(begun["elements"][2]["type"], "any_json");
  const Json free = Json::parse(after_reasoning({.reasoning = "<think>"}, answer));
  EXPECT_EQ(free["type"], "or");
  EXPECT_EQ(free["elements"][1]["type"], "any_json");
}

}  // namespace
}  // namespace lockstep::serve
