#include "runtime/constraint/constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime/constraint/isolated_compiler.h"
#include "tests/runtime/constraint/letters.h"

namespace lockstep::constraint {
namespace {

using ::testing::HasSubstr;

enum class Place { kHere, kIsolated };

std::unique_ptr<Compiler> compiler_at(Place place, const text::Tokenizer& tokenizer) {
#ifdef LOCKSTEP_CONSTRAINT_PROGRAM
  if (place == Place::kIsolated) {
    return make_isolated_compiler(tokenizer, tokenizer.vocabulary(), LOCKSTEP_CONSTRAINT_PROGRAM).value();
  }
#endif
  static_cast<void>(place);
  return make_compiler(tokenizer, tokenizer.vocabulary()).value();
}

class Constraints : public ::testing::TestWithParam<Place> {
 protected:
  std::unique_ptr<Matcher> begin(const std::string& json) {
    return compiler_->compile(json).value()->begin({kEnd}).value();
  }
  std::vector<float> scores() const { return std::vector<float>(static_cast<size_t>(letters_.vocabulary()), 0.0f); }
  bool is_answer(const std::string& json, std::string_view text) { return constraint::is_answer(*begin(json), text); }

  Letters letters_;
  std::unique_ptr<Compiler> compiler_ = compiler_at(GetParam(), letters_);
};

const std::string kPerson = R"({"type": "json_schema", "json_schema": {"type": "object", "properties":
  {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name", "age"], "additionalProperties": false}})";

TEST_P(Constraints, AllowOnlyWhatTheSchemaDescribes) {
  EXPECT_TRUE(is_answer(kPerson, R"({"name": "Ann", "age": 3})"));
  EXPECT_FALSE(is_answer(kPerson, R"({"name": "Ann"})"));
  EXPECT_FALSE(is_answer(kPerson, R"({"name": "Ann", "age": "3"})"));
  EXPECT_FALSE(is_answer(kPerson, R"({"name": "Ann", "age": 3, "more": 1})"));
}

TEST_P(Constraints, KeepControlCharactersOutOfStrings) {
  for (const char* length : {"", R"(, "maxLength": 4)", R"(, "minLength": 1)"}) {
    const std::string text = R"({"type": "json_schema", "json_schema": {"type": "string")" + std::string(length) + "}}";
    EXPECT_TRUE(is_answer(text, "\"a b\"")) << length;
    EXPECT_FALSE(is_answer(text, "\"a\tb\"")) << length;
    EXPECT_FALSE(is_answer(text, "\"a\nb\"")) << length;
  }
}

TEST_P(Constraints, KeepWhatJsonEscapesOutOfTextsOfAPattern) {
  for (const char* pattern : {"[^a]{3}", ".{3}", "\\\\D{3}", "\\\\W{3}", "\\\\S{3}", "(.|\\\\s){3}"}) {
    const std::string text =
        std::string(R"({"type": "json_schema", "json_schema": {"type": "string", "pattern": ")") + pattern + R"("}})";
    EXPECT_TRUE(is_answer(text, "\"+-*\"")) << pattern;
    for (const char* odd : {"\"\"\"\"\"", "\"+-\\\"", "\"+\n-\"", "\"\t\t\t\""}) {
      EXPECT_FALSE(is_answer(text, odd)) << pattern << " " << odd;
    }
  }
}

TEST_P(Constraints, EndWhiteSpaceInJson) {
  EXPECT_TRUE(is_answer(kPerson, "{\n      \"name\": \"Ann\", \"age\": 3}"));
  EXPECT_FALSE(is_answer(kPerson, "{" + std::string(kMostSpace + 1, ' ') + R"("name": "Ann", "age": 3})"));
  EXPECT_FALSE(is_answer(kPerson, R"({"name": "Ann", "age": 3}           )"));
}

TEST_P(Constraints, LeaveOnlyTheEndTokenToACompleteAnswer) {
  auto matcher = begin(R"({"type": "const_string", "value": "ok"})");
  EXPECT_TRUE(constraint::is_answer(*matcher, "ok"));
  auto row = scores();
  ASSERT_TRUE(matcher->mask(row).has_value());
  EXPECT_EQ(std::ranges::count_if(row, [](float score) { return !std::isinf(score); }), 1);
  ASSERT_TRUE(matcher->accept(kEnd).has_value());
  EXPECT_TRUE(matcher->has_ended());
}

TEST_P(Constraints, SayWhenNoTokenMayFollow) {
  auto matcher = begin(R"({"type": "regex", "pattern": "aé"})");  // the vocabulary has no such character
  auto row = scores();
  ASSERT_TRUE(matcher->mask(row).has_value());
  ASSERT_TRUE(matcher->accept(letters_.id_of("a").value()).has_value());
  const auto masked = matcher->mask(row);
  ASSERT_FALSE(masked.has_value());
  EXPECT_THAT(masked.error().message, HasSubstr("found no token that may follow"));
}

TEST_P(Constraints, ServeExpressionsGrammarsAndChoices) {
  EXPECT_TRUE(is_answer(R"({"type": "regex", "pattern": "^\\d{2}-[a-c]+$"})", "12-abc"));
  EXPECT_FALSE(is_answer(R"({"type": "regex", "pattern": "^\\d{2}-[a-c]+$"})", "12-"));
  EXPECT_TRUE(is_answer(R"({"type": "grammar", "grammar": "root ::= \"(\" root \")\" | \"x\""})", "((x))"));
  const std::string choice =
      R"({"type": "or", "elements": [{"type": "const_string", "value": "yes"}, {"type": "const_string", "value": "no"}]})";
  EXPECT_TRUE(is_answer(choice, "no"));
  EXPECT_FALSE(is_answer(choice, "ye"));
  EXPECT_TRUE(is_answer(R"({"type": "any_json"})", R"({"a": [1, true, {"b": null}]})"));
  EXPECT_FALSE(is_answer(R"({"type": "any_json"})", "[1]"));
}

TEST_P(Constraints, RepeatAPartWithinItsCounts) {
  const std::string twice =
      R"({"type": "repeat", "content": {"type": "const_string", "value": "ab"}, "min": 1, "max": 2})";
  EXPECT_FALSE(is_answer(twice, ""));
  EXPECT_TRUE(is_answer(twice, "ab"));
  EXPECT_TRUE(is_answer(twice, "abab"));
  EXPECT_FALSE(is_answer(twice, "ababab"));
  const std::string any =
      R"({"type": "repeat", "content": {"type": "const_string", "value": "a"}, "min": 0, "max": -1})";
  EXPECT_TRUE(is_answer(any, ""));
  EXPECT_TRUE(is_answer(any, std::string(40, 'a')));
}

TEST_P(Constraints, WriteAnObjectAsParametersOnRequest) {
  const std::string weather = R"({"type": "json_schema", "style": "qwen_xml", "json_schema": {"type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"],
    "additionalProperties": false}})";
  EXPECT_TRUE(is_answer(weather, "<parameter=city>\nSt. \"Ives\"\n</parameter>"));
  EXPECT_TRUE(is_answer(weather, "<parameter=city>\nRome\n</parameter>\n<parameter=days>\n3\n</parameter>"));
  EXPECT_FALSE(is_answer(weather, "<parameter=city>\nRome\n</parameter>\n<parameter=days>\nthree\n</parameter>"));
  EXPECT_FALSE(is_answer(weather, "<parameter=days>\n3\n</parameter>"));
  EXPECT_FALSE(is_answer(weather, "<parameter=town>\nRome\n</parameter>"));
  EXPECT_TRUE(is_answer(R"({"type": "any_json", "style": "qwen_xml"})", "<parameter=a>\nb\n</parameter>"));
}

TEST_P(Constraints, MatchASpecialTokenOnlyWhereItIsNamed) {
  EXPECT_FALSE(allows(*begin(R"({"type": "any_text"})"), kCall));
  auto matcher = begin(R"({"type": "tag", "begin": "<call>", "content": {"type": "any_json"}, "end": "!"})");
  EXPECT_TRUE(allows(*matcher, kCall));
  ASSERT_TRUE(matcher->accept(kCall).has_value());
  EXPECT_TRUE(constraint::is_answer(*matcher, R"({"a": 1}!)"));
}

TEST_P(Constraints, RefuseWhatDoesNotCompileWithoutHarmToOthers) {
  EXPECT_EQ(compiler_->compile(R"({"type": "grammar", "grammar": "root ::= ("})").error().kind,
            ErrorKind::kInvalidArgument);
  EXPECT_EQ(compiler_->compile(R"({"type": "regex", "pattern": "(a"})").error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(compiler_->compile(R"({"type": "json_schema", "json_schema": {"$ref": "#/$defs/none"}})").error().kind,
            ErrorKind::kInvalidArgument);
  EXPECT_THAT(compiler_->compile(R"({"type": "regex", "pattern": "é"})").error().message, HasSubstr("no answer fits"));
  EXPECT_TRUE(is_answer(R"({"type": "any_json"})", "{}"));
}

TEST_P(Constraints, AreCompiledOnceForTheSameText) {
  EXPECT_EQ(compiler_->compile(kPerson).value(), compiler_->compile(kPerson).value());
}

#ifdef LOCKSTEP_CONSTRAINT_PROGRAM
INSTANTIATE_TEST_SUITE_P(InThisProcessAndIsolated, Constraints, ::testing::Values(Place::kHere, Place::kIsolated));
#else
INSTANTIATE_TEST_SUITE_P(InThisProcess, Constraints, ::testing::Values(Place::kHere));
#endif

}  // namespace
}  // namespace lockstep::constraint
