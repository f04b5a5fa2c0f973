#include "runtime/graph/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "runtime/graph/builder.h"
#include "runtime/graph/operations.h"
#include "runtime/graph/passes.h"
#include "tests/runtime/graph/refused_text.h"
#include "tests/runtime/graph/tiny_decoder.h"

namespace lockstep::graph {
namespace {

using ::testing::HasSubstr;

/// An attribute of `kind`, not meant to suit any operation.
Attribute some_attribute(AttributeKind kind) {
  switch (kind) {
    case AttributeKind::kInteger: return int64_t{-7};
    case AttributeKind::kNumber: return -0.125;
    case AttributeKind::kText: return std::string("a text");
    case AttributeKind::kIntegers: return std::vector<int64_t>{3, -1};
  }
  return int64_t{0};
}

TEST(GraphText, ParsesBackToAnEqualGraph) {
  for (bool has_biases : {false, true}) {
    const Graph graph = tiny_decoder(has_biases);
    EXPECT_EQ(parse(to_text(graph)).value(), graph);
    const Graph fused = run_passes(graph, default_passes()).value();
    EXPECT_EQ(parse(to_text(fused)).value(), fused);
    EXPECT_EQ(to_text(parse(to_text(fused)).value()), to_text(fused));
  }
}

TEST(GraphText, ShowsEveryKindOfLine) {
  const std::string text = to_text(run_passes(tiny_decoder(), default_passes()).value());
  for (const char* line : {
           "graph decode tp=2 rank=0 rows=2 slots=2 {\n",
           "  %last_id = state : i32[2]\n",
           "  %rope.frequencies = constant [1,0.1] : f32[2]\n",
           "  %embed_tokens.weight = weight embed_tokens.weight[0:5,0:8] : bf16[5,8]\n",
           " = weight concat(layers.0.mlp.gate_proj.weight[0:6,0:8], layers.0.mlp.up_proj.weight[0:6,0:8]) : "
           "bf16[12,8]\n",
           "  %1 = embedding(%last_id, %embed_tokens.weight) first_row=0 : f32[1,2,8]\n",
           "  %2 = all_reduce(%1) blocks=[0,1,2] dtype=\"bf16\" : bf16[2,8]\n",
           " epsilon=1e-05 : bf16[2,8]\n",
           " heads=2 scale=1.0 : bf16[2,8]\n",
           "  advance(%length, %0)\n",
           "  output logits = %",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(GraphText, KeepsTheBitsOfEveryNumber) {
  GraphBuilder b({.name = "numbers", .ranks = 1, .rank = 0, .rows = 1, .slots = 1});
  std::vector<float> contents{0.1f, -0.0f, 1e-45f, std::numeric_limits<float>::max(),
                              -std::numeric_limits<float>::infinity()};
  for (uint32_t i = 0; i < 2000; ++i) {  // a spread over all finite bit patterns
    const float number = std::bit_cast<float>(i * 2147483u);
    if (number == number) contents.push_back(number);
  }
  b.constant("c", contents);
  const ValueId x = b.input("x", {DType::kFloat32, {1, 2}});
  const ValueId w = b.weight("w", {DType::kFloat32, {2}}, {{"w", {{0, 2}}}});
  const std::vector<double> epsilons{0.1, 1e-5, 5e-324, 1.0 / 3.0, 123456789.0, 1e22, 0.0};
  for (double epsilon : epsilons) b.rms_norm(x, w, epsilon);
  const Graph graph = std::move(b).finish();
  const Graph parsed = parse(to_text(graph)).value();
  for (size_t i = 0; i < contents.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(parsed.values[0].constant[i]), std::bit_cast<uint32_t>(contents[i])) << i;
  }
  for (size_t i = 0; i < epsilons.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint64_t>(parsed.nodes[i].number("epsilon")), std::bit_cast<uint64_t>(epsilons[i]));
  }
}

TEST(GraphText, QuotesNamesThatAreNotPlain) {
  GraphBuilder b({.name = "a \"graph\"\n", .ranks = 1, .rank = 0, .rows = 1, .slots = 1});
  b.weight("w + \x01\\é", {DType::kFloat32, {3}}, {{"concat", {{0, 1}}}, {"t[0]", {{0, 2}}}});
  b.weight("concat", {DType::kFloat32, {1}}, {{"concat", {{4, 5}}}});
  b.output("an output", b.state("output", {DType::kInt32, {}}));
  const Graph graph = std::move(b).finish();
  EXPECT_EQ(parse(to_text(graph)).value(), graph);
}

TEST(GraphText, KeepsEveryOperationAndAttribute) {
  for (const Operation& row : operations()) {
    Attributes attributes;
    for (const AttributeRule& rule : row.attributes) attributes.emplace(rule.name, some_attribute(rule.kind));
    Graph graph{.name = "g", .rows = 1, .slots = 2};
    graph.values.push_back({ValueKind::kInput, "x", {DType::kInt32, {1}}, {}, {}});
    std::optional<ValueId> result;
    if (!row.result.empty()) {
      result = ValueId(1);
      graph.values.push_back({ValueKind::kResult, "0", {DType::kInt32, {1}}, {}, {}});
    }
    graph.nodes.push_back({row.op, {ValueId(0)}, attributes, result});
    // Unsound, so it does not parse back to a graph, but the reader gets as far as the verifier.
    const auto parsed = parse(to_text(graph));
    ASSERT_FALSE(parsed.has_value()) << row.name;
    EXPECT_THAT(parsed.error().message, HasSubstr(fmt::format("node 0 ({})", row.name)));
  }
}

TEST(GraphText, KeepsTheOrderOfValuesAndNodes) {
  // A state that is made between two results, and updates between them.
  const std::string text =
      "graph g tp=1 rank=0 rows=1 slots=1 {\n"
      "  %a = state : i32[1]\n"
      "  %0 = running_slots(%a, %a) : i32[1]\n"
      "  %b = state : i32[1]\n"
      "  advance(%b, %0)\n"
      "  advance(%a, %0)\n"
      "  %1 = running_slots(%b, %a) : i32[1]\n"
      "  output slots = %1\n"
      "}\n";
  EXPECT_EQ(to_text(parse(text).value()), text);
}

struct BadText {
  std::string body;
  std::string expected;
};

class GraphTextErrors : public ::testing::TestWithParam<BadText> {};

TEST_P(GraphTextErrors, NameLineColumnAndWhatWasExpected) { expect_refused(GetParam().body, GetParam().expected); }

const std::string kHead = "graph g tp=1 rank=0 rows=1 slots=1 {\n";
const std::string kState = kHead + "  %a = state : i32[1]\n";

INSTANTIATE_TEST_SUITE_P(
    All, GraphTextErrors,
    ::testing::Values(
        BadText{"", "line 1, column 1: found the end, expected \"graph\""},
        BadText{"graphs g", "line 1, column 1: found \"graphs\", expected \"graph\""},
        BadText{"graph g tp=x", "line 1, column 12: found \"x\", expected an integer"},
        BadText{"graph g tp=99999999999999999999 ", "column 12: found \"99999999999999999999\", expected an integer"},
        BadText{"graph g tp=70000 ", "column 12: found \"70000\", expected 0 to 65536"},
        BadText{"graph g tp=-1 ", "column 12: found \"-1\", expected 0 to"},
        BadText{"graph g tp=1 rank=0 rows=1 slots=1 }", "found \"}\", expected \"{\""},
        BadText{kHead, "line 2, column 1: found the end, expected a value, an operation, output or \"}\""},
        BadText{kHead + "} x", "line 2, column 3: found \"x\", expected the end of the text"},
        BadText{kHead + "  %a = stat : i32[1]", "line 2, column 8: found \"stat\", expected the name of an operation"},
        BadText{kHead + "  %a = state : i33[1]", "line 2, column 16: found \"i33\", expected f32, bf16"},
        BadText{kHead + "  %a = state : i32[1", "found the end, expected \",\""},
        BadText{kHead + "  %a = state i32[1]", "line 2, column 14: found \"i32\", expected \":\""},
        BadText{kHead + "  %\"a", "found the end, expected a closing \""},
        BadText{kHead + "  %\"a\\n\"", "line 2, column 6: found \"\\\\\", expected one of"},
        BadText{kState + "  %a = state : i32[1]\n}",
                "line 3, column 4: found \"a\", expected a name that is not taken"},
        BadText{kState + "  %0 = add(%b, %a) : i32[1]\n}",
                "line 3, column 13: found \"b\", expected the name of a value"},
        BadText{kState + "  %0 = advance(%a, %a) : i32[1]\n}", "node 0 (advance): found a result, expected none"},
        BadText{kState + "  add(%a, %a)\n}", "line 3, column 3: found \"add\", expected \"%name = add\""},
        BadText{kState + "  %0 = add(%a %a) : i32[1]\n}", "line 3, column 15: found \"%\", expected \",\""},
        BadText{kState + "  advance(%a, %a) speed=1\n}",
                "line 3, column 19: found \"speed\", expected an attribute of"},
        BadText{kState + "  %0 = columns(%a) begin=1 begin=2 : i32[1]\n}", "column 28: found \"begin\", expected each"},
        BadText{kState + "  %0 = columns(%a) begin=1.5 : i32[1]\n}", "found \"1.5\", expected an integer"},
        BadText{kState + "  %0 = all_reduce(%a) dtype=bf16 : i32[1]\n}", "found \"bf16\", expected \"\"\""},
        BadText{kState + "  output x = a\n}", "line 3, column 14: found \"a\", expected \"%\""},
        BadText{kHead + "  %w = weight t[0:1,0] : f32[1,1]\n}", "found \"]\", expected \":\""},
        BadText{kHead + "  %c = constant [nan] : f32[1]\n}", "found NaN"},
        BadText{kHead + "  %c = constant [1e99] : f32[1]\n}", "found \"1e99\", expected a number that fits f32"}));

TEST(GraphText, RefusesTextAfterANulByteAndDeepNesting) {
  std::string text = to_text(tiny_decoder());
  text.insert(40, 1, '\0');
  EXPECT_FALSE(parse(text).has_value());
  EXPECT_FALSE(parse(kHead + std::string(1 << 20, '[')).has_value());
  EXPECT_FALSE(parse(kHead + "  %a = state : i32" + std::string(1 << 20, '[')).has_value());
}

}  // namespace
}  // namespace lockstep::graph
