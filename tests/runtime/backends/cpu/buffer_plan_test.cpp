#include "runtime/backends/cpu/buffer_plan.h"

#include <gtest/gtest.h>

#include "runtime/graph/builder.h"

namespace lockstep::cpu {
namespace {

using graph::GraphBuilder;
using graph::ValueId;

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

TEST(BufferPlan, CopiesColumnsThatTheHostReads) {
  GraphBuilder builder({.name = "prefill", .rows = 4, .slots = 1});
  const ValueId x = builder.input("x", rows_of(64));
  const ValueId part = builder.columns(x, {0, 16});
  builder.output("part", part);
  const graph::Graph graph = std::move(builder).finish();
  EXPECT_TRUE(plan_buffers(graph).values[part.value].is_workspace);
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

}  // namespace
}  // namespace lockstep::cpu
