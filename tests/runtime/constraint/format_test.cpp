#include "runtime/constraint/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::constraint {
namespace {

using ::testing::HasSubstr;

Error refusal_of(const std::string& schema) {
  return check_format(R"({"type": "json_schema", "json_schema": )" + schema + "}").error();
}

TEST(Format, NamesASchemaKeywordThatItCannotHonour) {
  EXPECT_THAT(refusal_of(R"({"type": "array", "uniqueItems": true})").message, HasSubstr("uniqueItems"));
  EXPECT_THAT(refusal_of(R"({"not": {"type": "null"}})").message, HasSubstr("not"));
  EXPECT_THAT(refusal_of(R"({"type": "integer", "multipleOf": 3})").message, HasSubstr("multipleOf"));
  EXPECT_THAT(refusal_of(R"({"type": "string", "pattern": "a", "maxLength": 3})").message, HasSubstr("pattern"));
  EXPECT_THAT(refusal_of(R"({"anyOf": [{}], "minimum": 3})").message, HasSubstr("minimum beside anyOf"));
  EXPECT_THAT(refusal_of(R"({"$ref": "http://a/b"})").message, HasSubstr("$ref"));
  EXPECT_EQ(refusal_of(R"({"not": {}})").kind, ErrorKind::kUnsupported);
}

TEST(Format, RefusesPatternsWhoseTextsWouldNotBeJson) {
  const auto refusal_of_pattern = [](const std::string& pattern) {
    return refusal_of(R"({"type": "string", "pattern": ")" + pattern + "\"}").message;
  };
  EXPECT_THAT(refusal_of_pattern(R"(^\"[a-z]{3}\"$)"), HasSubstr("a quote in the pattern"));
  EXPECT_THAT(refusal_of_pattern(R"([\"])"), HasSubstr("a quote in the pattern"));
  EXPECT_THAT(refusal_of_pattern(R"(^C:\\\\[a-z]$)"), HasSubstr("\\\\ in the pattern"));
  EXPECT_THAT(refusal_of_pattern(R"(\\x22)"), HasSubstr("\\x in the pattern"));
  EXPECT_THAT(refusal_of_pattern(R"(\\u005c)"), HasSubstr("\\u in the pattern"));
  EXPECT_THAT(refusal_of_pattern(R"(a\\nb)"), HasSubstr("\\n in the pattern"));
  EXPECT_THAT(refusal_of_pattern(R"(a\nb)"), HasSubstr("a control character in the pattern"));
  EXPECT_THAT(refusal_of_pattern("[^]"), HasSubstr("[^] in the pattern"));
  EXPECT_TRUE(check_regex("\"C:\\\\").has_value());  // outside of JSON
}

TEST(Format, NamesARequiredPropertyThatIsNotDescribed) {
  const std::string properties = R"({"type": "object", "properties": {"a": {"type": "integer"}}, "required": )";
  EXPECT_TRUE(check_format(R"({"type": "json_schema", "json_schema": )" + properties + R"(["a"]}})").has_value());
  EXPECT_THAT(refusal_of(properties + R"(["a", "b"]})").message, HasSubstr("required property \"b\""));
  EXPECT_THAT(refusal_of(properties + R"("a"})").message, HasSubstr("a list of names"));
  EXPECT_THAT(refusal_of(R"({"type": "object", "required": ["a"]})").message, HasSubstr("required property \"a\""));
}

TEST(Format, RefusesSizesThatWouldBlowUp) {
  EXPECT_EQ(refusal_of(R"({"type": "string", "maxLength": 1000000000})").kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(check_regex("(a{4000}){4000}").error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(check_format(std::string(100'000, ' ')).error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(check_format(std::string(5000, '[')).error().kind, ErrorKind::kInvalidArgument);
}

TEST(Format, RefusesPartsOfAnExpressionThatWouldBeIgnored) {
  EXPECT_FALSE(check_regex("a^b").has_value());
  EXPECT_FALSE(check_regex("\\ba").has_value());
  for (const char* look : {"(?=a)a", "(?!ab)[a-b]{2}", "a(?<=a)", "(?<!b)a"}) {
    EXPECT_FALSE(check_regex(look).has_value()) << look;
  }
  EXPECT_TRUE(check_regex("(?:a|b)").has_value());
  EXPECT_TRUE(check_regex("^[0-9]{4}-\\d+\\.$").has_value());
}

TEST(Format, NamesAStyleAndACountThatItDoesNotHave) {
  EXPECT_THAT(check_format(R"({"type": "any_json", "style": "yaml"})").error().message, HasSubstr("yaml"));
  const std::string repeat = R"({"type": "repeat", "content": {"type": "any_text"}, "min": 0, "max": )";
  EXPECT_TRUE(check_format(repeat + "4096}").has_value());
  EXPECT_FALSE(check_format(repeat + "4097}").has_value());
  EXPECT_FALSE(check_format(repeat + "\"2\"}").has_value());
}

TEST(Format, KeepsTheOrderOfProperties) {
  const auto format =
      check_format(R"({"type": "json_schema", "json_schema": {"type": "object", "properties": {"z": {}, "a": {}}}})");
  const std::string& text = format.value().structural_tag;
  EXPECT_LT(text.find("\"z\""), text.find("\"a\""));
}

}  // namespace
}  // namespace lockstep::constraint
