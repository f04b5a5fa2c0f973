#include "runtime/constraint/constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace lockstep::constraint {
namespace {

using ::testing::HasSubstr;

/// A token for every printable character, a few longer ones, an end token, and a special token.
class Letters final : public text::Tokenizer {
 public:
  Letters() {
    tokens_ = {"<end>", "<call>"};
    for (char c = ' '; c <= '~'; ++c) tokens_.emplace_back(1, c);
    tokens_.insert(tokens_.end(), {"\n", "true", "{\"", "\":", "   "});
    for (size_t id = 0; id < tokens_.size(); ++id) ids_[tokens_[id]] = static_cast<int32_t>(id);
  }
  Result<std::vector<int32_t>> encode(std::string_view text, text::SpecialTokens) const override {
    std::vector<int32_t> ids;
    for (const char c : text) ids.push_back(ids_.at(std::string(1, c)));
    return ids;
  }
  Result<std::string> decode(const std::vector<int32_t>&, text::SpecialPieces) const override { return std::string(); }
  std::unique_ptr<text::DecodeStream> open_stream(text::SpecialPieces) const override { return nullptr; }
  std::optional<int32_t> id_of(std::string_view token) const override {
    const auto found = ids_.find(std::string(token));
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<std::string> token_of(int32_t id) const override { return tokens_[static_cast<size_t>(id)]; }
  bool is_special(int32_t id) const override { return id < 2; }
  int32_t vocabulary() const override { return static_cast<int32_t>(tokens_.size()); }

 private:
  std::vector<std::string> tokens_;
  std::map<std::string, int32_t> ids_;
};

constexpr int32_t kEnd = 0;
constexpr int32_t kCall = 1;

class Constraints : public ::testing::Test {
 protected:
  std::unique_ptr<Matcher> begin(const std::string& json) {
    return compiler_->compile(json).value()->begin({kEnd}).value();
  }
  std::vector<float> scores() const { return std::vector<float>(static_cast<size_t>(letters_.vocabulary()), 0.0f); }
  /// Whether `text`, character by character, is a whole answer.
  bool is_answer(Matcher& matcher, std::string_view text) {
    const std::vector<int32_t> ids = letters_.encode(text, text::SpecialTokens::kOmit).value();
    for (const int32_t id : ids) {
      if (!allows(matcher, id) || !matcher.accept(id).has_value()) return false;
    }
    return allows(matcher, kEnd);
  }
  bool is_answer(const std::string& json, std::string_view text) { return is_answer(*begin(json), text); }
  bool allows(Matcher& matcher, int32_t id) {
    auto row = scores();
    return matcher.mask(row).has_value() && !std::isinf(row[static_cast<size_t>(id)]);
  }

  Letters letters_;
  std::unique_ptr<Compiler> compiler_ = make_compiler(letters_, letters_.vocabulary()).value();
};

const std::string kPerson = R"({"type": "json_schema", "json_schema": {"type": "object", "properties":
  {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name", "age"], "additionalProperties": false}})";

TEST_F(Constraints, AllowOnlyWhatTheSchemaDescribes) {
  EXPECT_TRUE(is_answer(kPerson, R"({"name": "Ann", "age": 3})"));
  EXPECT_FALSE(is_answer(kPerson, R"({"name": "Ann"})"));
  EXPECT_FALSE(is_answer(kPerson, R"({"name": "Ann", "age": "3"})"));
  EXPECT_FALSE(is_answer(kPerson, R"({"name": "Ann", "age": 3, "more": 1})"));
}

TEST_F(Constraints, EndWhiteSpaceInJson) {
  EXPECT_TRUE(is_answer(kPerson, "{\n      \"name\": \"Ann\", \"age\": 3}"));
  EXPECT_FALSE(is_answer(kPerson, "{" + std::string(kMostSpace + 1, ' ') + R"("name": "Ann", "age": 3})"));
  EXPECT_FALSE(is_answer(kPerson, R"({"name": "Ann", "age": 3}           )"));
}

TEST_F(Constraints, LeaveOnlyTheEndTokenToACompleteAnswer) {
  auto matcher = begin(R"({"type": "const_string", "value": "ok"})");
  EXPECT_TRUE(is_answer(*matcher, "ok"));
  auto row = scores();
  ASSERT_TRUE(matcher->mask(row).has_value());
  EXPECT_EQ(std::ranges::count_if(row, [](float score) { return !std::isinf(score); }), 1);
  ASSERT_TRUE(matcher->accept(kEnd).has_value());
  EXPECT_TRUE(matcher->has_ended());
}

TEST_F(Constraints, SayWhenNoTokenMayFollow) {
  auto matcher = begin(R"({"type": "regex", "pattern": "é"})");  // the vocabulary has no such character
  auto row = scores();
  const auto masked = matcher->mask(row);
  ASSERT_FALSE(masked.has_value());
  EXPECT_THAT(masked.error().message, HasSubstr("found no token that may follow"));
}

TEST_F(Constraints, ServeExpressionsGrammarsAndChoices) {
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

TEST_F(Constraints, MatchASpecialTokenOnlyWhereItIsNamed) {
  EXPECT_FALSE(allows(*begin(R"({"type": "any_text"})"), kCall));
  auto matcher = begin(R"({"type": "tag", "begin": "<call>", "content": {"type": "any_json"}, "end": "!"})");
  EXPECT_TRUE(allows(*matcher, kCall));
  ASSERT_TRUE(matcher->accept(kCall).has_value());
  EXPECT_TRUE(is_answer(*matcher, R"({"a": 1}!)"));
}

TEST_F(Constraints, RefuseWhatDoesNotCompileWithoutHarmToOthers) {
  EXPECT_EQ(compiler_->compile(R"({"type": "grammar", "grammar": "root ::= ("})").error().kind,
            ErrorKind::kInvalidArgument);
  EXPECT_EQ(compiler_->compile(R"({"type": "regex", "pattern": "(a"})").error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(compiler_->compile(R"({"type": "json_schema", "json_schema": {"$ref": "#/$defs/none"}})").error().kind,
            ErrorKind::kInvalidArgument);
  EXPECT_TRUE(is_answer(R"({"type": "any_json"})", "{}"));
}

TEST_F(Constraints, AreCompiledOnceForTheSameText) {
  EXPECT_EQ(compiler_->compile(kPerson).value(), compiler_->compile(kPerson).value());
}

}  // namespace
}  // namespace lockstep::constraint
