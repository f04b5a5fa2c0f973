// Constraints that are meant to use up time and memory, in processes with limits.
#include "runtime/constraint/isolated_compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "runtime/process/process_table.h"
#include "tests/runtime/constraint/letters.h"

namespace lockstep::constraint {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr auto kPatience = std::chrono::seconds(60);

std::string repeated(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

std::string regex(const std::string& pattern) { return Json{{"type", "regex"}, {"pattern", pattern}}.dump(); }
std::string grammar(const std::string& text) { return Json{{"type", "grammar"}, {"grammar", text}}.dump(); }
std::string schema(const Json& schema) { return Json{{"type", "json_schema"}, {"json_schema", schema}}.dump(); }

/// Every state of it is thousands of states at once.
const std::string kEndless = grammar("root ::= " + repeated("[a-z]* ", 3000));
const std::string kPlain = regex("[a-c]+");

/// Each is refused, becomes too costly, or can be served.
std::vector<std::string> hostile_constraints() {
  Json nested = {{"type", "string"}, {"minLength", 4000}, {"maxLength", 4096}};
  for (int depth = 0; depth < 40; ++depth) {
    nested = {{"type", "array"}, {"items", nested}, {"minItems", 4000}, {"maxItems", 4096}};
  }
  Json values = Json::array();
  for (int i = 0; i < 6000; ++i) values.push_back("value" + std::to_string(i));
  Json doubled = {{"d400", {{"type", "null"}}}};
  for (int i = 0; i < 400; ++i) {
    const Json next = {{"$ref", "#/$defs/d" + std::to_string(i + 1)}};
    doubled["d" + std::to_string(i)] = {{"type", "object"}, {"properties", {{"l", next}, {"r", next}}}};
  }
  const Json itself = {{"$ref", "#/$defs/a"}};
  return {regex("(((a{60}){60}){60}){60}"),
          regex("(a{0,255}){0,255}"),
          regex("(a|aa)*b"),
          regex("((a|aa)*)*b"),
          regex("(.*)*" + repeated("(a*)*", 30)),
          regex(".*a.{4000}"),
          regex("(\\w+\\s?){2000}"),
          regex(repeated("(", 45) + "a" + repeated("|b)+", 45)),
          regex(repeated("(", 5000) + "a" + repeated(")", 5000)),
          schema({{"type", "array"}, {"items", {{"type", "string"}}}, {"minItems", 1'000'000'000}}),
          schema(nested),
          schema({{"enum", values}}),
          schema({{"$ref", "#/$defs/a"}, {"$defs", {{"a", itself}}}}),
          schema({{"$ref", "#/$defs/a"}, {"$defs", {{"a", {{"anyOf", {itself, itself}}}}}}}),
          schema({{"$ref", "#/$defs/d0"}, {"$defs", doubled}}),
          schema(Json::parse(repeated("{\"items\":", 300) + "{}" + repeated("}", 300))),
          grammar("root ::= root root | \"a\" | \"\""),
          grammar("root ::= ((\"a\"{1000}){1000}){1000}"),
          grammar("root ::= r0\n" + repeated("r0 ::= r0 r0 | \"x\"\n", 1000)),
          kEndless};
}

class Isolated : public ::testing::Test {
 protected:
  std::unique_ptr<Compiler> compiler(const IsolationLimits& limits = {}) {
    return make_isolated_compiler(letters_, letters_.vocabulary(), LOCKSTEP_CONSTRAINT_PROGRAM, limits).value();
  }

  /// The error of an answer that takes the last allowed token each time, the end token at last, up to `most` tokens.
  /// None if it ends or could go on.
  std::optional<Error> error_of_answer(const Constraint& constraint, int most) {
    const auto matcher = constraint.begin({kEnd});
    if (!matcher.has_value()) return matcher.error();
    for (int made = 0; made < most && !matcher.value()->has_ended(); ++made) {
      std::vector<float> row(static_cast<size_t>(letters_.vocabulary()), 0.0f);
      const Result<void> masked = matcher.value()->mask(row);
      if (!masked.has_value()) return masked.error();
      const auto allowed = std::find_if(row.rbegin(), row.rend(), [](float score) { return !std::isinf(score); });
      const Result<void> accepted = matcher.value()->accept(static_cast<int32_t>(row.rend() - allowed) - 1);
      if (!accepted.has_value()) return accepted.error();
    }
    return std::nullopt;
  }

  Letters letters_{Words::kAll};
};

TEST_F(Isolated, EndHostileConstraintsInWordsAndServeTheNextOnes) {
  const auto limited = compiler({.compile = std::chrono::milliseconds(150),
                                 .most_mask = std::chrono::milliseconds(50),
                                 .mask = std::chrono::microseconds(500)});
  const auto expect_refusal = [](const Error& error) {
    EXPECT_THAT(error.kind, AnyOf(ErrorKind::kInvalidArgument, ErrorKind::kUnsupported)) << error.message;
    EXPECT_THAT(error.message, StartsWith("[runtime/constraint] "));
  };
  for (const std::string& hostile : hostile_constraints()) {
    SCOPED_TRACE(hostile.substr(0, 100));
    const auto compiled = limited->compile(hostile);
    if (!compiled.has_value()) {
      expect_refusal(compiled.error());
    } else if (const auto error = error_of_answer(*compiled.value(), 150)) {
      expect_refusal(*error);
    }
    const auto plain = limited->compile(kPlain);
    ASSERT_TRUE(plain.has_value()) << plain.error().message;
    EXPECT_EQ(error_of_answer(*plain.value(), 20), std::nullopt);
  }
}

TEST_F(Isolated, RefuseAConstraintThatTakesTooLongToCompile) {
  const auto refused = compiler({.compile = std::chrono::milliseconds(100)})->compile(kEndless);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("takes more than 0.1 s of a processor"));
}

TEST_F(Isolated, EndAnAnswerWhoseTokensBecomeTooCostlyAndNoOther) {
  const auto limited = compiler({.most_mask = std::chrono::milliseconds(60), .mask = std::chrono::microseconds(100)});
  const auto costly = limited->compile(regex("(\\w+\\s?){2000}")).value();
  const auto plain = limited->compile(kPlain).value();
  const auto beside = plain->begin({kEnd}).value();
  const auto error = error_of_answer(*costly, 2000);
  ASSERT_TRUE(error.has_value());
  EXPECT_THAT(error->message, HasSubstr("a token takes more than"));
  std::vector<float> row(static_cast<size_t>(letters_.vocabulary()), 0.0f);
  EXPECT_TRUE(beside->mask(row).has_value());
  EXPECT_EQ(error_of_answer(*plain, 20), std::nullopt);
}

TEST_F(Isolated, CompileOthersWhileOneTakesLong) {
  const auto unlimited = compiler({.compile = std::chrono::hours(1)});
  auto endless = std::async(std::launch::async, [&] { return unlimited->compile(kEndless); });
  auto plain = std::async(std::launch::async, [&] { return unlimited->compile(kPlain); });
  ASSERT_EQ(plain.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(error_of_answer(*plain.get().value(), 20), std::nullopt);
  EXPECT_EQ(endless.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  unlimited->stop();
  ASSERT_EQ(endless.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(endless.get().error().kind, ErrorKind::kCancelled);
}

TEST_F(Isolated, GoOnAfterASignalToEveryProcessOfTheJob) {
  const auto compiler = this->compiler();
  const auto plain = compiler->compile(kPlain).value();
  const auto before = plain->begin({kEnd}).value();
  std::vector<float> row(static_cast<size_t>(letters_.vocabulary()), 0.0f);
  ASSERT_TRUE(before->mask(row).has_value());  // its process is there
  const auto listed = process::list_processes();
  std::set<pid_t> below = {::getpid()};
  for (int level = 0; level < 3; ++level) {  // host, constraint, answer
    for (const process::ListedProcess& one : listed) {
      if (below.contains(one.parent)) below.insert(one.pid);
    }
  }
  below.erase(::getpid());
  ASSERT_GE(below.size(), 3u);
  for (const pid_t pid : below) ASSERT_EQ(::kill(pid, SIGTERM), 0);
  ASSERT_TRUE(before->accept(letters_.encode("a", text::SpecialTokens::kOmit).value().front()).has_value());
  EXPECT_TRUE(before->mask(row).has_value());
  EXPECT_EQ(error_of_answer(*plain, 20), std::nullopt);
  EXPECT_TRUE(compiler->compile(regex("[x-z]+")).has_value());
}

TEST_F(Isolated, NameAProgramThatIsMissing) {
  const auto missing = make_isolated_compiler(letters_, letters_.vocabulary(), "/no/such/program").value();
  const auto refused = missing->compile(kPlain);
  EXPECT_EQ(refused.error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(refused.error().message, HasSubstr("/no/such/program"));
}

}  // namespace
}  // namespace lockstep::constraint
