// Calls as a constraint lets a model write them, and as the reader reads them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/serve/output/output_reader.h"
#include "tests/runtime/constraint/letters.h"

namespace lockstep::serve {
namespace {

using ::testing::HasSubstr;

const Tool kWeather{.name = "weather", .parameters = R"({"type": "object", "properties": {"city": {"type": "string"},
                      "days": {"type": "integer"}, "unit": {"enum": ["c", "f"]}}, "required": ["city"],
                      "additionalProperties": false})"};
const Tool kTime{.name = "time"};

class ConstrainedCalls : public ::testing::Test {
 protected:
  /// Whether a model that has to call may answer `text`.
  bool may_write(const char* format, const std::vector<Tool>& tools, std::string_view text) {
    const auto constraint = tool_constraint({.tools = format}, tools, ToolChoice::kRequired, "", true);
    const auto compiled = compiler_->compile(constraint.value());
    EXPECT_TRUE(compiled.has_value()) << (compiled.has_value() ? "" : compiled.error().message) << constraint.value();
    return constraint::is_answer(*compiled.value()->begin({constraint::kEnd}).value(), text);
  }
  /// "NAME ARGUMENTS;" of each call.
  static std::string read(const char* format, const std::vector<Tool>& tools, std::string_view text) {
    const auto reader = make_reader({.tools = format}, {.tools = true, .schemas = tools});
    std::vector<OutputPiece> pieces = reader->put(text);
    for (OutputPiece& piece : reader->finish()) pieces.push_back(std::move(piece));
    std::string calls;
    for (const OutputPiece& piece : pieces) {
      if (piece.kind == OutputPiece::Kind::kToolBegin) calls += piece.text + " ";
      if (piece.kind == OutputPiece::Kind::kToolArguments) calls += piece.text;
      if (piece.kind == OutputPiece::Kind::kToolEnd) calls += ";";
    }
    return calls;
  }

  constraint::Letters letters_;
  std::unique_ptr<constraint::Compiler> compiler_ = make_compiler(letters_, letters_.vocabulary()).value();
};

TEST_F(ConstrainedCalls, OfQwenCoderHaveParametersInTags) {
  const std::string call =
      "<tool_call>\n<function=weather>\n<parameter=city>\nRome "
      "\"(RM)\"\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
      "</function>\n</tool_call>";
  EXPECT_TRUE(may_write("qwen_xml", {kWeather, kTime}, call));
  EXPECT_EQ(read("qwen_xml", {kWeather, kTime}, call), R"(weather {"city":"Rome \"(RM)\"","days":3};)");
  const std::string two = call + "\n<tool_call>\n<function=time>\n</function>\n</tool_call>";
  EXPECT_TRUE(may_write("qwen_xml", {kWeather, kTime}, two));
  EXPECT_EQ(read("qwen_xml", {kWeather, kTime}, two), R"(weather {"city":"Rome \"(RM)\"","days":3};time {};)");
  EXPECT_FALSE(may_write("qwen_xml", {kWeather}, "<tool_call>\n<function=weather>\n</function>\n</tool_call>"));
  EXPECT_FALSE(may_write("qwen_xml", {kWeather}, "It is warm."));
}

TEST_F(ConstrainedCalls, OfQwenCoderHaveOneOfTheValuesOfAnEnumWhateverTheBlanks) {
  const std::string begin = "<tool_call>\n<function=weather>\n<parameter=city>\nR\n</parameter>\n<parameter=unit>";
  const std::string end = "</parameter>\n</function>\n</tool_call>";
  EXPECT_FALSE(may_write("qwen_xml", {kWeather}, begin + "\nk\n" + end));
  for (const char* value : {"\nc\n", "c", "\n  c\n"}) {
    if (!may_write("qwen_xml", {kWeather}, begin + value + end)) continue;
    EXPECT_EQ(read("qwen_xml", {kWeather}, begin + value + end), R"(weather {"city":"R","unit":"c"};)");
  }
  EXPECT_TRUE(may_write("qwen_xml", {kWeather}, begin + "\nc\n" + end));
}

TEST_F(ConstrainedCalls, OfGemmaHaveKeysWithoutQuotesAndTextsBetweenMarks) {
  const std::string call =
      "<start_function_call>call:weather{city:<escape>St. \"Ives\"<escape>,unit:<escape>c<escape>}<end_function_call>";
  EXPECT_TRUE(may_write("gemma", {kWeather, kTime}, call));
  EXPECT_EQ(read("gemma", {kWeather}, call), R"(weather {"city":"St. \"Ives\"","unit":"c"};)");
  EXPECT_TRUE(may_write("gemma", {kWeather, kTime}, "<start_function_call>call:time{}<end_function_call>"));
  const auto with = [](const std::string& arguments) {
    return "<start_function_call>call:weather" + arguments + "<end_function_call>";
  };
  EXPECT_TRUE(may_write("gemma", {kWeather}, with("{city:<escape>R<escape>,days:3,unit:<escape>f<escape>}")));
  EXPECT_FALSE(may_write("gemma", {kWeather}, with("{}")));
  EXPECT_FALSE(may_write("gemma", {kWeather}, with("{days:3}")));
  EXPECT_FALSE(may_write("gemma", {kWeather}, with("{city:Rome}")));
  EXPECT_FALSE(may_write("gemma", {kWeather}, with("{city:<escape>R<escape>,unit:<escape>k<escape>}")));
  EXPECT_FALSE(may_write("gemma", {kWeather}, with("{city:<escape>R<escape>,}")));
}

TEST_F(ConstrainedCalls, OfGemmaMayHaveListsObjectsAndLimits) {
  const Tool tool{
      .name = "f",
      .parameters = R"({"properties": {"list": {"type": "array", "items": {"type": "integer"}, "minItems": 1,
                    "maxItems": 2}, "to": {"type": "object", "properties": {"x": {"type": ["number", "null"]}}},
                    "code": {"type": "string", "minLength": 2, "maxLength": 3}}})"};
  const auto may = [&](const std::string& arguments) {
    return may_write("gemma", {tool}, "<start_function_call>call:f" + arguments + "<end_function_call>");
  };
  EXPECT_TRUE(may("{}"));
  EXPECT_TRUE(may("{list:[1,2],to:{x:null},code:<escape>abc<escape>}"));
  EXPECT_TRUE(may("{to:{},code:<escape>ab<escape>}"));
  EXPECT_TRUE(may("{code:<escape>ab<escape>}"));
  EXPECT_FALSE(may("{list:[]}"));
  EXPECT_FALSE(may("{list:[1,2,3]}"));
  EXPECT_FALSE(may("{code:<escape>a<escape>}"));
  EXPECT_FALSE(may("{,code:<escape>ab<escape>}"));
}

TEST(ConstrainedCallsRefusal, OfASchemaThatWouldGrowBeyondAllMeasure) {
  std::string definitions = "{";
  for (int i = 0; i < 7; ++i) {
    const std::string next = R"({"$ref": "#/$defs/t)" + std::to_string(i + 1) + "\"}";
    std::string properties;
    for (int p = 0; p < 30; ++p) properties += (p > 0 ? ", " : "") + ("\"p" + std::to_string(p) + "\": ") + next;
    definitions += "\"t" + std::to_string(i) + R"(": {"properties": {)" + properties + "}}, ";
  }
  const Tool tool{.name = "f",
                  .parameters = R"({"properties": {"t": {"$ref": "#/$defs/t0"}}, "$defs": )" + definitions +
                                R"("t7": {"type": "null"}}})"};
  const auto refused = tool_constraint({.tools = "gemma"}, {tool}, ToolChoice::kRequired, "", true);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("parts"));
  // The types of such a parameter are found as well.
  EXPECT_NE(make_reader({.tools = "qwen_xml"}, {.tools = true, .schemas = {tool}}), nullptr);
}

TEST(ConstrainedCallsRefusal, NamesWhatGemmasNotationCannotExpress) {
  const auto refusal = [](const char* schema) {
    const Tool tool{.name = "f", .parameters = schema};
    return tool_constraint({.tools = "gemma"}, {tool}, ToolChoice::kRequired, "", true).error();
  };
  const Error pattern = refusal(R"({"properties": {"a": {"type": "string", "pattern": "x"}}})");
  EXPECT_EQ(pattern.kind, ErrorKind::kUnsupported);
  EXPECT_THAT(pattern.message, HasSubstr("the keyword pattern"));
  EXPECT_THAT(refusal(R"({"properties": {"a": {"type": "object", "additionalProperties": true}}})").message,
              HasSubstr("any properties"));
  EXPECT_THAT(refusal(R"({"$defs": {"t": {"properties": {"t": {"$ref": "#/$defs/t"}}}},
                          "properties": {"t": {"$ref": "#/$defs/t"}}})")
                  .message,
              HasSubstr("contains itself"));
}

}  // namespace
}  // namespace lockstep::serve
