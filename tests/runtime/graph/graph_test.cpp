#include "runtime/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <sstream>

#include "runtime/graph/operations.h"
#include "runtime/graph/verifier.h"
#include "tests/runtime/graph/tiny_decoder.h"

namespace lockstep::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Operations, AreInTheOrderOfTheEnumerationAndNamedOnce) {
  ASSERT_EQ(operations().size(), static_cast<size_t>(Op::kScore) + 1);
  for (size_t i = 0; i < operations().size(); ++i) {
    EXPECT_EQ(static_cast<size_t>(operations()[i].op), i);
    EXPECT_EQ(op_from_name(to_string(operations()[i].op)), operations()[i].op);
  }
  EXPECT_EQ(op_from_name("rms_norm "), std::nullopt);
}

TEST(Operations, HaveALineWithTheirAttributesInTheDocumentation) {
  std::ifstream file(LOCKSTEP_OPERATIONS_MD);
  std::map<std::string, std::string> line_of;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| `")) line_of.emplace(line.substr(3, line.find('`', 3) - 3), line);
  }
  EXPECT_EQ(line_of.size(), operations().size());
  for (const Operation& row : operations()) {
    const std::string& line = line_of[std::string(row.name)];
    for (const AttributeRule& rule : row.attributes) EXPECT_THAT(line, HasSubstr(fmt::format("`{}`", rule.name)));
    for (size_t updated : updated_operands(row.op)) {
      const std::string after = line.substr(std::min(line.size(), line.find("pdates ")));
      EXPECT_THAT(after, HasSubstr(std::string(row.operands[updated].name)));
    }
  }
}

TEST(Operations, SayWhichOperandsTheyUpdate) {
  EXPECT_THAT(updated_operands(Op::kKvAppend), ElementsAre(1));
  EXPECT_THAT(updated_operands(Op::kSample), ElementsAre(2, 3, 4));
  EXPECT_THAT(updated_operands(Op::kAccept), ElementsAre(3, 4, 5, 6, 7));
  EXPECT_THAT(updated_operands(Op::kLinear), ElementsAre());
}

TEST(Node, GivesAttributesByNameAndRefusesTheWrongKind) {
  const Node node{Op::kRope, {}, {{"heads", int64_t{3}}, {"scale", 0.5}}, std::nullopt};
  EXPECT_EQ(node.integer("heads"), 3);
  EXPECT_EQ(node.number("scale"), 0.5);
  EXPECT_TRUE(node.has("heads"));
  EXPECT_FALSE(node.has("blocks"));
  EXPECT_THROW(node.number("heads"), CheckFailure);
  EXPECT_THROW(node.integers("blocks"), CheckFailure);
}

TEST(Graph, FindsValuesByNameAndKind) {
  const Graph graph = tiny_decoder();
  EXPECT_EQ(graph.value(*graph.find("kv.0.v")).kind, ValueKind::kState);
  EXPECT_EQ(graph.find("kv.1.v"), std::nullopt);
  EXPECT_EQ(graph.values_of(ValueKind::kConstant).size(), 1u);
  EXPECT_EQ(graph.values_of(ValueKind::kState).size(), 6u);
  EXPECT_THROW(graph.value(ValueId(1000)), CheckFailure);
}

TEST(GraphFingerprint, IsTheSameForEqualGraphs) {
  EXPECT_EQ(fingerprint(tiny_decoder()), fingerprint(tiny_decoder()));
  Graph minus_zero = tiny_decoder();
  Graph zero = tiny_decoder();
  const auto id = static_cast<size_t>(zero.find("rope.frequencies")->value);
  minus_zero.values[id].constant[0] = -0.0f;
  zero.values[id].constant[0] = 0.0f;
  ASSERT_EQ(zero, minus_zero);
  EXPECT_EQ(fingerprint(zero), fingerprint(minus_zero));
}

TEST(GraphFingerprint, ChangesWithEveryPart) {
  const std::vector<std::function<void(Graph&)>> changes = {
      [](Graph& g) { g.name = "prefill"; },
      [](Graph& g) { g.ranks = 3; },
      [](Graph& g) { g.rank = 1; },
      [](Graph& g) { g.rows = 3; },
      [](Graph& g) { g.slots = 3; },
      [](Graph& g) { g.values[0].name = "first"; },
      [](Graph& g) { g.values[0].kind = ValueKind::kInput; },
      [](Graph& g) { g.values[0].type.dtype = DType::kUInt8; },
      [](Graph& g) {
        g.values[0].type.shape = {2, 1};
      },
      [](Graph& g) { g.values[static_cast<size_t>(g.find("rope.frequencies")->value)].constant[1] = 0.2f; },
      [](Graph& g) {
        g.values[static_cast<size_t>(g.find("embed_tokens.weight")->value)].slices[0].range[0] = {1, 6};
      },
      [](Graph& g) { g.values[static_cast<size_t>(g.find("embed_tokens.weight")->value)].slices[0].tensor = "other"; },
      [](Graph& g) { g.values[static_cast<size_t>(g.find("embed_tokens.weight")->value)].format = WeightFormat{}; },
      [](Graph& g) { g.nodes[1].op = Op::kAdd; },
      [](Graph& g) { std::swap(g.nodes[0].operands[0], g.nodes[0].operands[1]); },
      [](Graph& g) { g.nodes[1].attributes["first_row"] = int64_t{1}; },
      [](Graph& g) { g.nodes[1].attributes["first_row"] = 0.0; },
      [](Graph& g) { g.nodes.back().result = ValueId(0); },
      [](Graph& g) { g.outputs[0].name = "scores"; },
      [](Graph& g) { g.outputs[0].value = ValueId(0); },
  };
  const uint64_t original = fingerprint(tiny_decoder());
  for (size_t i = 0; i < changes.size(); ++i) {
    Graph changed = tiny_decoder();
    changes[i](changed);
    EXPECT_NE(fingerprint(changed), original) << "change " << i;
  }
}

TEST(CostOf, CountsBytesArithmeticAndMessagesOfAStep) {
  const StepCost cost = cost_of(tiny_decoder());
  // Matrices 5·8 (tied, whole because the head reads it), q 8·8, k and v 4·8, o 8·8, gate and up 6·8, down 8·6.
  const int64_t matrix_elements = 40 + 64 + 32 + 32 + 64 + 48 + 48 + 48;
  EXPECT_EQ(cost.weight_bytes, (matrix_elements + 2 * 8) * 2);
  EXPECT_EQ(cost.flops, 2 * 2 * matrix_elements);
  EXPECT_EQ(cost.state_bytes, 4 * (2 * 4) + 2 * (2 * 16 * 4 * 2));
  EXPECT_EQ(cost.collectives, 4);
  // Roots f32[1,2,8]; f32[1,2,8] for leaves 0-1 of 3; f32[2,2,8] for leaves 0-2 of 6; logits f32[2,5].
  EXPECT_EQ(cost.collective_bytes, 64 + 64 + 128 + 40);
}

TEST(CostOf, CountsCodesAndWhatGroupsHaveBesideThem) {
  GraphBuilder b({.name = "prefill", .ranks = 1, .rank = 0, .rows = 3, .slots = 1});
  const ValueId x = b.input("x", {DType::kBFloat16, {3, 40}});
  const WeightFormat eight{.bits = 8, .group = 16};
  const WeightFormat four{.bits = 4, .group = 16, .offset = GroupOffset::kZeros, .scale = ScaleType::kFloat16};
  const ValueId table = b.weight("table", {DType::kBFloat16, {10, 40}}, {{"table", {{0, 10}, {0, 40}}}}, eight);
  const ValueId down = b.weight("down", {DType::kBFloat16, {6, 40}}, {{"down", {{0, 6}, {0, 40}}}}, eight);
  const ValueId up = b.weight("up", {DType::kBFloat16, {8, 40}}, {{"up", {{0, 8}, {0, 40}}}}, four);
  b.embedding(b.input("ids", {DType::kInt32, {3}}), table, 0);
  b.linear(x, table, std::nullopt, DType::kFloat32, Activations::kInt8);           // 16 + 16 + 8 columns
  b.linear_blocks(x, down, BlockSplit{{0, 2}}, /*block=*/24, Activations::kInt8);  // 16 + 8, 16 columns
  b.linear(x, up);
  const Graph graph = std::move(b).finish();
  constexpr int64_t kFourBits = 8 * (20 + 3 * 3);  // a scale of two bytes and a zero for each group
  EXPECT_EQ(cost_of(graph).weight_bytes, (10 + 6) * (40 + 3 * 4) + kFourBits);
  EXPECT_EQ(stored_bytes(graph, *graph.find("table")), 10 * (40 + 3 * 4));
  EXPECT_EQ(stored_bytes(graph, *graph.find("down")), 6 * (40 + 3 * 4));
  EXPECT_EQ(stored_bytes(graph, *graph.find("up")), kFourBits);
  EXPECT_EQ(cost_of(graph).flops, 2 * 3 * 40 * (16 + 8));
}

TEST(CostOf, CountsOneRowPerTokenOfATableThatIsOnlyLookedUp) {
  GraphBuilder b({.name = "prefill", .ranks = 1, .rank = 0, .rows = 3, .slots = 1});
  const ValueId ids = b.input("ids", {DType::kInt32, {3}});
  b.embedding(ids, b.weight("table", {DType::kFloat32, {100, 8}}, {{"table", {{0, 100}, {0, 8}}}}), 0);
  b.lookup(ids, b.weight("positions", {DType::kFloat32, {50, 8}}, {{"positions", {{0, 50}, {0, 8}}}}), 2);
  EXPECT_EQ(cost_of(std::move(b).finish()).weight_bytes, 2 * 3 * 8 * 4);
}

/// Six experts, of which rank 0 of 2 holds three whole ones; four rows.
Graph routed_experts(bool through_a_route) {
  GraphBuilder b({.name = "g", .ranks = 2, .rank = 0, .rows = 4, .slots = 1});
  const auto weight = [&](std::string name, int64_t rows, int64_t columns) {
    return b.weight(name, {DType::kBFloat16, {rows, columns}}, {{name, {{0, rows}, {0, columns}}}});
  };
  const ValueId logits = b.input("logits", {DType::kFloat32, {4, 6}});
  const ValueId route = through_a_route ? b.moe_route(logits, {.chosen = 2}) : logits;
  b.moe_experts({b.input("x", {DType::kBFloat16, {4, 8}}), route, weight("gate", 15, 8), weight("up", 15, 8),
                 weight("down", 24, 5)},
                {.experts = {0, 3}, .leaf_is_expert = true, .split = BlockSplit{{0, 3, 6}}, .activation = "silu"});
  return std::move(b).finish();
}

TEST(CostOf, CountsTheExpertsThatRowsMeetOnAverageAndReadsAllThatAreHeld) {
  const StepCost cost = cost_of(routed_experts(/*through_a_route=*/true));
  constexpr int64_t kElementsOfAnExpert = 3 * 5 * 8;
  EXPECT_EQ(cost.weight_bytes, 3 * kElementsOfAnExpert * 2);
  EXPECT_EQ(cost.flops, 2 * 4 * 2 * kElementsOfAnExpert / 2);  // each row has 2 experts, one of them here
  EXPECT_EQ(cost_of(routed_experts(/*through_a_route=*/false)).flops, 2 * 4 * 3 * kElementsOfAnExpert);
}

}  // namespace
}  // namespace lockstep::graph
