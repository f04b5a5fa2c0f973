#include "runtime/backends/cpu/buffer_plan.h"

#include <gtest/gtest.h>

#include "runtime/graph/builder.h"
#include "runtime/graph/text.h"
#include "runtime/graph/token_rows.h"

namespace lockstep::cpu {
namespace {

using graph::GraphBuilder;
using graph::ValueId;

BufferPlan plan_buffers(const graph::Graph& graph) { return cpu::plan_buffers(graph, plan_fusion(graph)); }

TensorType rows_of(int64_t columns) { return {DType::kFloat32, {4, columns}}; }

TEST(BufferPlan, ReusesMemoryThatIsNoLongerRead) {
  GraphBuilder builder({.name = "prefill", .rows = 4, .slots = 1});
  ValueId x = builder.input("x", rows_of(256));
  for (int i = 0; i < 10; ++i) x = builder.add(x, x);
  builder.output("y", x);
  const graph::Graph graph = std::move(builder).finish();
  EXPECT_EQ(plan_buffers(graph).bytes, 3 * rows_of(256).bytes());  // the input and two results in turn
}

TEST(BufferPlan, NeverPlacesAResultOverWhatIsStillRead) {
  GraphBuilder builder({.name = "prefill", .rows = 4, .slots = 1});
  const ValueId x = builder.input("x", rows_of(64));
  const ValueId kept = builder.add(x, x);
  const ValueId part = builder.columns(kept, {16, 32});  // reads `kept` through a view
  ValueId other = builder.add(x, x);
  other = builder.add(other, other);
  const ValueId late = builder.add(part, part);
  builder.output("other", other);
  builder.output("late", late);
  const graph::Graph graph = std::move(builder).finish();
  const BufferPlan plan = plan_buffers(graph);
  ASSERT_TRUE(plan.values[part.value].is_view);
  EXPECT_EQ(plan.values[part.value].base, kept);
  EXPECT_EQ(plan.values[part.value].first_column, 16);
  const auto overlap = [&](ValueId a, ValueId b) {
    const int64_t a_begin = plan.values[a.value].offset, b_begin = plan.values[b.value].offset;
    return a_begin < b_begin + graph.value(b).type.bytes() && b_begin < a_begin + graph.value(a).type.bytes();
  };
  for (ValueId later : {other, late}) EXPECT_FALSE(overlap(kept, later));
  EXPECT_FALSE(overlap(other, late));
}

/// A step of 4 rows of 32, whose nodes are given as text, and where its values lie.
struct Placed {
  explicit Placed(const std::string& nodes)
      : graph(graph::parse("graph decode tp=1 rank=0 rows=4 slots=4 {\n"
                           "  %x = input : f32[4,32]\n"
                           "  %n = weight n[0:32] : f32[32]\n"
                           "  %w = weight w[0:32,0:32] : f32[32,32]\n" +
                           nodes + "}\n")
                  .value()),
        plan(plan_buffers(graph)) {}

  bool overlap(std::string_view a, std::string_view b) const {
    const ValueId first = *graph.find(a), second = *graph.find(b);
    const int64_t a_begin = plan.values[first.value].offset, b_begin = plan.values[second.value].offset;
    return a_begin < b_begin + graph.value(second).type.bytes() && b_begin < a_begin + graph.value(first).type.bytes();
  }

  graph::Graph graph;
  BufferPlan plan;
};

TEST(BufferPlan, KeepsWhatANormReadsUntilTheProductThatMakesItsRows) {
  const Placed placed(R"(
  %0 = scale(%x) factor=2.0 : f32[4,32]
  %1 = rms_norm(%0, %n) epsilon=1e-05 : f32[4,32]
  %2 = scale(%x) factor=3.0 : f32[4,32]
  %3 = linear(%1, %w) : f32[4,32]
  %4 = activation(%3) activation="silu" : f32[4,32]
  output other = %2
  output y = %4
)");
  // One worker may still read %0 while another one writes its columns of %4.
  for (const char* later : {"2", "3", "4"}) EXPECT_FALSE(placed.overlap("0", later)) << later;
}

TEST(BufferPlan, PlacesWhatFollowsAProductWhenThatRuns) {
  const Placed placed(R"(
  %0 = linear(%x, %w) : f32[4,32]
  %1 = scale(%x) factor=2.0 : f32[4,32]
  %2 = add(%1, %1) : f32[4,32]
  %3 = activation(%0) activation="silu" : f32[4,32]
  output other = %2
  output y = %3
)");
  for (const char* between : {"1", "2"}) EXPECT_FALSE(placed.overlap("3", between)) << between;
  EXPECT_TRUE(placed.overlap("0", "1"));  // which nothing reads any more by then
}

TEST(BufferPlan, KeepsWhatSaysWhichRowsArePadding) {
  const Placed placed(R"(
  %length = state : i32[4]
  %k = state : f32[4,1,8,32]
  %0 = running_slots(%length, %length) : i32[4]
  kv_append(%x, %k, %0, %length)
  %1 = clamp_positions(%length) most=5 : i32[4]
  output y = %1
)");
  EXPECT_FALSE(placed.overlap("0", "1"));
}

TEST(BufferPlan, CopiesColumnsThatTheHostReads) {
  GraphBuilder builder({.name = "prefill", .rows = 4, .slots = 1});
  const ValueId x = builder.input("x", rows_of(64));
  const ValueId part = builder.columns(x, {0, 16});
  builder.output("part", part);
  const graph::Graph graph = std::move(builder).finish();
  EXPECT_TRUE(plan_buffers(graph).values[part.value].is_workspace);
}

/// Partial sums of token rows: [1, 4, 16], by two leaves.
class PartialSums : public ::testing::Test {
 protected:
  ValueId partial() { return builder_.linear_blocks(x_, w_, split_, 16); }
  void output_sum(ValueId partial) { builder_.output("y", builder_.all_reduce(partial, split_, DType::kFloat32)); }

  const BlockSplit split_{{0, 2}};
  GraphBuilder builder_{{.name = "prefill", .rows = 4, .slots = 1}};
  ValueId ids_ = builder_.input("ids", {DType::kInt32, {4}});
  ValueId table_ = builder_.weight("t", {DType::kFloat32, {8, 32}}, {{"t", {{0, 8}, {0, 32}}}});
  ValueId w_ = builder_.weight("w", {DType::kFloat32, {16, 32}}, {{"w", {{0, 16}, {0, 32}}}});
  ValueId x_ = builder_.lookup(ids_, table_, 0);
};

TEST_F(PartialSums, ArePackedWhereOnlyJoinsAndSumsReadThem) {
  const ValueId read_twice = partial(), kept = partial();
  const ValueId joined = builder_.join_partials(builder_.join_partials(read_twice, read_twice), kept);
  builder_.output("kept", kept);
  output_sum(joined);
  const BufferPlan plan = plan_buffers(std::move(builder_).finish());
  EXPECT_TRUE(plan.values[read_twice.value].packs_planes);
  EXPECT_FALSE(plan.values[kept.value].packs_planes);  // the host reads it
  EXPECT_TRUE(plan.values[joined.value].packs_planes);
  EXPECT_TRUE(plan.values[joined.value].is_token_rows);
  for (ValueId copied : {read_twice, kept}) EXPECT_FALSE(plan.values[copied.value].is_view);
}

TEST_F(PartialSums, AreWrittenSideBySideWhereTheirJoinAloneReadsThem) {
  const ValueId first = partial();
  const ValueId between = builder_.add(x_, x_);
  const ValueId second = builder_.linear_blocks(between, w_, split_, 16);
  const ValueId joined = builder_.join_partials(first, second);
  output_sum(joined);
  const graph::Graph graph = std::move(builder_).finish();
  const BufferPlan plan = plan_buffers(graph);
  EXPECT_EQ(plan.values[first.value].first_column, 0);
  EXPECT_EQ(plan.values[second.value].first_column, 16);
  for (ValueId part : {first, second}) {
    EXPECT_TRUE(plan.values[part.value].is_view);
    EXPECT_EQ(plan.values[part.value].base, joined);
    EXPECT_TRUE(plan.values[part.value].packs_planes);
  }
  // The joined result has its place from the first part on.
  const Placement &whole = plan.values[joined.value], &other = plan.values[between.value];
  EXPECT_TRUE(other.offset >= whole.offset + graph.value(joined).type.bytes() ||
              whole.offset >= other.offset + graph.value(between).type.bytes());
}

TEST(BufferPlan, FindsNoSlotOfRowsWhereNodesDisagree) {
  GraphBuilder builder({.name = "prefill", .rows = 4, .slots = 1});
  const ValueId x = builder.input("x", rows_of(16));
  const ValueId a = builder.input("a", {DType::kInt32, {4}}), b = builder.input("b", {DType::kInt32, {4}});
  const ValueId k = builder.state("k", {DType::kFloat32, {1, 1, 8, 16}});
  const ValueId v = builder.state("v", {DType::kFloat32, {1, 1, 8, 16}});
  builder.kv_append(x, k, a, a);
  EXPECT_EQ(slot_of_rows([&] {
              GraphBuilder copy = builder;
              return std::move(copy).finish();
            }()),
            a);
  builder.kv_append(x, v, b, a);
  EXPECT_EQ(slot_of_rows(std::move(builder).finish()), std::nullopt);
}

TEST(BufferPlan, FindsNoSlotOfRowsWhereRowsAreComputedBeforeItIsKnown) {
  const auto slot_after = [](const char* rows_before, const char* rows_after) {
    const std::string nodes = std::string(
                                  "graph decode tp=1 rank=0 rows=4 slots=4 {\n"
                                  "  %x = input : f32[4,16]\n  %length = state : i32[4]\n"
                                  "  %active = state : i32[4]\n  %k = state : f32[4,1,8,16]\n") +
                              rows_before + "  %0 = running_slots(%active, %length) : i32[4]\n" + rows_after +
                              "  kv_append(%x, %k, %0, %length)\n}\n";
    return graph::slot_of_rows(graph::parse(nodes).value()).has_value();
  };
  const char* const rows = "  %1 = scale(%x) factor=2.0 : f32[4,16]\n";
  EXPECT_TRUE(slot_after("", rows));
  EXPECT_FALSE(slot_after(rows, ""));
}

}  // namespace
}  // namespace lockstep::cpu
