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

TEST(GraphBuilder, BuildsSampleAndAgreeWithAllOfTheirOperands) {
  GraphBuilder b = two_rank_builder();
  const auto state = [&](std::string name, DType type, Shape shape) { return b.state(std::move(name), {type, shape}); };
  const auto per_slot = [&](std::string name) { return state(std::move(name), DType::kInt32, {3}); };
  const auto real = [&](std::string name) { return state(std::move(name), DType::kFloat32, {3}); };
  const ValueId last_id = per_slot("last_id");
  const ValueId output_index = per_slot("output_index");
  const ValueId finished = per_slot("finished");
  const ValueId token = b.sample(
      {b.input("logits", {DType::kFloat32, {3, 9}}), b.input("rows", {DType::kInt32, {3}}), last_id, output_index,
       finished, state("seen", DType::kUInt8, {3, 9}), real("temperature"), real("top_p"), real("min_p"),
       real("repetition_penalty"), per_slot("top_k"), per_slot("do_sample"), per_slot("max_new_tokens"),
       per_slot("pad_id"), state("seed", DType::kInt32, {3, 2}), state("eos", DType::kInt32, {3, 4})});
  EXPECT_EQ(to_string(b.type_of(token)), "i32[3]");
  b.agree({b.input("hidden", {DType::kFloat32, {3, 8}}), b.input("step", {DType::kInt32, {2}}), last_id,
           per_slot("length"), output_index, per_slot("parameter_hash"), b.input("stop_request", {DType::kInt32, {3}}),
           finished});
  b.mark_seen(*std::optional(state("seen", DType::kUInt8, {3, 9})), token, b.input("slots", {DType::kInt32, {3}}));
  EXPECT_EQ(std::move(b).finish().nodes.size(), 3u);
}

}  // namespace
}  // namespace lockstep::graph
