#include "runtime/graph/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/graph/verifier.h"
#include "tests/runtime/graph/tiny_decoder.h"

namespace lockstep::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

GraphBuilder two_rank_builder() { return GraphBuilder({.name = "g", .ranks = 2, .rank = 1, .rows = 4, .slots = 3}); }

TEST(GraphBuilder, GivesTheSameValueForTheSameWeightStateOrConstant) {
  GraphBuilder b = two_rank_builder();
  const TensorType type{DType::kFloat32, {2, 3}};
  const std::vector<WeightSlice> slices{{"w", {{0, 2}, {0, 3}}}};
  EXPECT_EQ(b.weight("w", type, slices), b.weight("w", type, slices));
  EXPECT_EQ(b.state("s", type), b.state("s", type));
  EXPECT_EQ(b.constant("c", {1, 2}), b.constant("c", {1, 2}));
  EXPECT_EQ(std::move(b).finish().values.size(), 3u);
}

TEST(GraphBuilder, RefusesANameThatMeansSomethingElse) {
  GraphBuilder b = two_rank_builder();
  b.weight("w", {DType::kFloat32, {2}}, {{"w", {{0, 2}}}});
  EXPECT_THROW(b.weight("w", {DType::kFloat32, {2}}, {{"w", {{1, 3}}}}), CheckFailure);
  EXPECT_THROW(b.state("w", {DType::kFloat32, {2}}), CheckFailure);
  b.input("x", {DType::kInt32, {4}});
  EXPECT_THROW(b.input("x", {DType::kInt32, {4}}), CheckFailure);
}

TEST(GraphBuilder, InfersTheTypeOfEveryResult) {
  GraphBuilder b = two_rank_builder();
  const ValueId x = b.input("x", {DType::kBFloat16, {4, 6}});
  const ValueId w = b.weight("w", {DType::kBFloat16, {5, 6}}, {{"w", {{0, 5}, {0, 6}}}});
  EXPECT_EQ(to_string(b.type_of(b.linear(x, w))), "bf16[4,5]");
  EXPECT_EQ(to_string(b.type_of(b.linear(x, w, std::nullopt, DType::kFloat32))), "f32[4,5]");
  // Rank 1 of 2 owns leaves 1-3 of 4, which are the subtrees [1,2) and [2,4).
  const BlockSplit split{{0, 1, 4}};
  const ValueId partial = b.linear_blocks(x, w, split, 2);
  EXPECT_EQ(to_string(b.type_of(partial)), "f32[2,4,5]");
  EXPECT_EQ(to_string(b.type_of(b.all_reduce(partial, split, DType::kFloat16))), "f16[4,5]");
  EXPECT_EQ(to_string(b.type_of(b.all_gather(x, {3, 6}))), "bf16[4,9]");
  EXPECT_EQ(to_string(b.type_of(b.columns(x, {1, 3}))), "bf16[4,2]");
  EXPECT_EQ(to_string(b.type_of(b.select_rows(x, b.input("rows", {DType::kInt32, {3}})))), "bf16[3,6]");
}

TEST(GraphBuilder, WritesTheResultTypeOfALinearOnlyWhenItDiffers) {
  GraphBuilder b = two_rank_builder();
  const ValueId x = b.input("x", {DType::kFloat32, {4, 6}});
  const ValueId w = b.weight("w", {DType::kFloat32, {5, 6}}, {{"w", {{0, 5}, {0, 6}}}});
  b.linear(x, w, std::nullopt, DType::kFloat32);
  b.linear(x, w, std::nullopt, DType::kBFloat16);
  const Graph graph = std::move(b).finish();
  EXPECT_FALSE(graph.nodes[0].has("dtype"));
  EXPECT_EQ(graph.nodes[1].text("dtype"), "bf16");
}

TEST(GraphBuilder, FailsACheckThatNamesTheOperandWhenItIsMisused) {
  GraphBuilder b = two_rank_builder();
  const ValueId x = b.input("x", {DType::kFloat32, {4, 6}});
  const ValueId integers = b.input("integers", {DType::kInt32, {4, 6}});
  EXPECT_THAT([&] { b.linear(x, integers); }, ThrowsMessage<CheckFailure>(HasSubstr("operand 1 (weight)")));
  EXPECT_THAT([&] { b.add(x, ValueId(7)); }, ThrowsMessage<CheckFailure>(HasSubstr("value number 7")));
}

TEST(GraphBuilder, NumbersResultsAndVerifiesTheGraph) {
  const Graph graph = tiny_decoder();
  EXPECT_TRUE(verify(graph).has_value());
  int expected = 0;
  for (ValueId result : graph.values_of(ValueKind::kResult)) {
    EXPECT_EQ(graph.value(result).name, std::to_string(expected++));
  }
  EXPECT_EQ(expected, 22);
}

/// The sampling states of `sample` and `accept`, for three slots and nine ids, in their order from `seen` on.
std::vector<ValueId> drawing_states(GraphBuilder& b) {
  return {b.state("seen", {DType::kUInt8, {3, 9}}), b.state("draw_numbers", {DType::kFloat32, {3, 7}}),
          b.state("draw_integers", {DType::kInt32, {3, 5}}), b.state("seed", {DType::kInt32, {3, 2}}),
          b.state("eos", {DType::kInt32, {3, 4}})};
}

TEST(GraphBuilder, BuildsSampleAndAgreeWithAllOfTheirOperands) {
  GraphBuilder b = two_rank_builder();
  const auto per_slot = [&](std::string name) { return b.state(std::move(name), {DType::kInt32, {3}}); };
  const ValueId last_id = per_slot("last_id");
  const ValueId output_index = per_slot("output_index");
  const ValueId finished = per_slot("finished");
  std::vector<ValueId> operands{b.input("logits", {DType::kFloat32, {3, 9}}), b.input("rows", {DType::kInt32, {3}}),
                                last_id, output_index, finished};
  const std::vector<ValueId> drawing = drawing_states(b);
  operands.insert(operands.end(), drawing.begin(), drawing.end());
  const ValueId token = b.sample(std::move(operands));
  EXPECT_EQ(to_string(b.type_of(token)), "i32[3]");
  b.agree({b.input("hidden", {DType::kFloat32, {3, 8}}), b.input("step", {DType::kInt32, {2}}), last_id,
           per_slot("length"), output_index, per_slot("parameter_hash"), b.input("stop_request", {DType::kInt32, {3}}),
           finished});
  b.mark_seen(drawing[0], token, b.input("slots", {DType::kInt32, {3}}));
  EXPECT_EQ(std::move(b).finish().nodes.size(), 3u);
}

TEST(GraphBuilder, BuildsAcceptForDraftsOfEverySlot) {
  GraphBuilder b = two_rank_builder();
  const auto per_slot = [&](std::string name) { return b.state(std::move(name), {DType::kInt32, {3}}); };
  std::vector<ValueId> operands{b.input("logits", {DType::kFloat32, {12, 9}}),
                                b.input("ids", {DType::kInt32, {12}}),
                                b.input("slot", {DType::kInt32, {12}}),
                                per_slot("length"),
                                per_slot("last_id"),
                                per_slot("output_index"),
                                per_slot("finished")};
  const std::vector<ValueId> drawing = drawing_states(b);
  operands.insert(operands.end(), drawing.begin(), drawing.end());
  EXPECT_EQ(to_string(b.type_of(b.accept(std::move(operands)))), "i32[12]");
}

TEST(GraphBuilder, BuildsAScoreOfTheTargetAndTheHighest) {
  GraphBuilder b = two_rank_builder();
  const ValueId logits = b.input("logits", {DType::kFloat32, {4, 9}}), targets = b.input("t", {DType::kInt32, {4}});
  EXPECT_EQ(to_string(b.type_of(b.score(logits, targets, /*top=*/3))), "f32[4,7]");
  EXPECT_EQ(to_string(b.type_of(b.score(logits, targets, /*top=*/0))), "f32[4,1]");
}

TEST(GraphBuilder, LeavesOutWhatANeutralOptionWouldSay) {
  GraphBuilder b = two_rank_builder();
  const ValueId x = b.input("x", {DType::kFloat32, {4, 6}});
  const ValueId position = b.input("position", {DType::kInt32, {4}});
  const ValueId cache = b.state("cache", {DType::kFloat32, {3, 2, 8, 3}});
  b.rms_norm(x, b.weight("w", {DType::kFloat32, {6}}, {{"w", {{0, 6}}}}), 1e-5);
  b.rope({x, position, b.constant("f", {1.0f})}, /*heads=*/2, /*scale=*/1.0);
  b.kv_append(x, cache, position, position);
  b.attention(x, cache, cache, position, position, {.head_map = {0, 1}, .scale = 1.0, .kernel = "decode"});
  const Graph graph = std::move(b).finish();
  EXPECT_EQ(graph.nodes[0].attributes.size(), 1u);  // epsilon
  EXPECT_EQ(graph.nodes[1].attributes.size(), 2u);  // heads, scale
  EXPECT_EQ(graph.nodes[2].attributes.size(), 0u);
  EXPECT_EQ(graph.nodes[3].attributes.size(), 3u);  // head_map, scale, kernel
}

TEST(GraphBuilder, WritesEveryOptionOfAttention) {
  GraphBuilder b = two_rank_builder();
  const ValueId q = b.input("q", {DType::kFloat32, {4, 6}});
  const ValueId slot = b.input("slot", {DType::kInt32, {4}});
  const ValueId cache = b.state("cache", {DType::kFloat32, {3, 2, 8, 3}});
  AttentionOptions options{.head_map = {0, 1}, .scale = 0.5, .kernel = "prefill"};
  options.window = 4;
  options.pinned = 1;
  options.soft_cap = 30;
  options.bound = 64;
  options.sinks = b.weight("sinks", {DType::kBFloat16, {2}}, {{"sinks", {{0, 2}}}});
  options.pinned_q = b.input("pinned_q", {DType::kFloat32, {4, 6}});
  b.kv_append(q, cache, slot, slot, /*window=*/4, /*pinned=*/1);
  b.attention(q, cache, cache, slot, slot, options);
  const Graph graph = std::move(b).finish();
  EXPECT_EQ(graph.nodes[0].integer("pinned"), 1);
  const Node& attention = graph.nodes[1];
  EXPECT_EQ(attention.text("per_head"), "sinks");
  EXPECT_EQ(attention.integer("window"), 4);
  EXPECT_EQ(attention.integer("bound"), 64);
  EXPECT_EQ(attention.number("soft_cap"), 30.0);
  EXPECT_EQ(attention.operands[5], *options.sinks);
  EXPECT_EQ(attention.operands[6], *options.pinned_q);
}

TEST(GraphBuilder, InfersTheRootsOfExperts) {
  GraphBuilder b = two_rank_builder();  // rank 1 of 2
  const auto weight = [&](std::string name, int64_t rows, int64_t columns) {
    return b.weight(name, {DType::kBFloat16, {rows, columns}}, {{name, {{0, rows}, {0, columns}}}});
  };
  const ValueId x = b.input("x", {DType::kBFloat16, {4, 6}});
  const ValueId route = b.moe_route(b.input("logits", {DType::kFloat32, {4, 5}}), {.chosen = 2});
  EXPECT_EQ(to_string(b.type_of(route)), "f32[4,5]");
  // By columns: leaves 1 to 3 of 4, two columns each and a last one of one, of all five experts.
  const ValueId by_columns =
      b.moe_experts({x, route, weight("g", 25, 6), weight("u", 25, 6), weight("d", 30, 5)},
                    {.experts = {0, 5}, .split = BlockSplit{{0, 1, 4}}, .block = 2, .activation = "silu"});
  EXPECT_EQ(to_string(b.type_of(by_columns)), "f32[2,4,6]");
  // By expert: experts 2 to 4 of 5, whole.
  const ValueId by_expert = b.moe_experts({x, route, weight("ge", 27, 6), weight("ue", 27, 6), weight("de", 18, 9)},
                                          {.experts = {2, 5},
                                           .leaf_is_expert = true,
                                           .split = BlockSplit{{0, 2, 5}},
                                           .activation = "clamped_swiglu",
                                           .limit = 7,
                                           .alpha = 1.702});
  EXPECT_EQ(to_string(b.type_of(by_expert)), "f32[2,4,6]");
  EXPECT_EQ(to_string(b.type_of(b.join_partials(by_columns, by_expert))), "f32[2,4,12]");
}

TEST(GraphBuilder, InfersTheTypesOfLatentAttention) {
  GraphBuilder b = two_rank_builder();
  const DType dtype = DType::kFloat32;
  const ValueId plain = b.input("plain", {dtype, {4, 2 * 5}}), turned = b.input("turned", {dtype, {4, 2 * 2}});
  const ValueId rows = b.input("rows", {DType::kInt32, {4}});
  const ValueId keys = b.weight("keys", {dtype, {2 * 6, 5}}, {{"keys", {{0, 12}, {0, 5}}}});
  const ValueId q = b.join_heads(b.head_linear(plain, keys, 2), turned, 2);
  EXPECT_EQ(to_string(b.type_of(q)), "f32[4,16]");
  const ValueId cache = b.state("cache", {dtype, {b.slots(), 1, 9, 8}});
  const ValueId attended = b.attention(q, cache, cache, rows, rows,
                                       {.head_map = {0, 0}, .scale = 0.5, .kernel = "decode", .value_columns = 6});
  EXPECT_EQ(to_string(b.type_of(attended)), "f32[4,12]");
}

}  // namespace
}  // namespace lockstep::graph
