#include "runtime/backends/reference/buffer_plan.h"

#include <gtest/gtest.h>

#include "runtime/graph/builder.h"

namespace lockstep::reference {
namespace {

using graph::ValueId;

graph::GraphBuilder builder() {
  return graph::GraphBuilder({.name = "test", .ranks = 1, .rank = 0, .rows = 2, .slots = 1});
}

int buffer_of(const BufferPlan& plan, ValueId id) { return plan.buffer[static_cast<size_t>(id.value)]; }

TEST(PlanBuffers, ReusesTheBufferOfAValueThatIsNoLongerRead) {
  graph::GraphBuilder b = builder();
  const ValueId x = b.input("x", {DType::kFloat32, {2, 4}});
  const ValueId first = b.add(x, x);
  const ValueId second = b.add(first, first);
  const ValueId third = b.add(second, second);
  b.output("y", b.add(third, third));
  const BufferPlan plan = plan_buffers(std::move(b).finish());
  EXPECT_NE(buffer_of(plan, first), buffer_of(plan, second));  // an operand is read while the result is written
  EXPECT_EQ(buffer_of(plan, first), buffer_of(plan, third));
}

TEST(PlanBuffers, NeverReusesTheBufferOfAnInputOrAnOutput) {
  graph::GraphBuilder b = builder();
  const ValueId x = b.input("x", {DType::kFloat32, {2, 4}});
  const ValueId kept = b.add(x, x);
  b.output("kept", kept);
  std::vector<ValueId> later = {b.add(kept, kept)};
  for (int i = 0; i < 4; ++i) later.push_back(b.add(later.back(), later.back()));
  const BufferPlan plan = plan_buffers(std::move(b).finish());
  for (const ValueId id : later) {
    EXPECT_NE(buffer_of(plan, id), buffer_of(plan, x));
    EXPECT_NE(buffer_of(plan, id), buffer_of(plan, kept));
  }
}

TEST(PlanBuffers, MakesABufferAsLargeAsItsLargestValue) {
  graph::GraphBuilder b = builder();
  const ValueId x = b.input("x", {DType::kBFloat16, {2, 8}});
  const ValueId narrow = b.columns(x, {0, 1});
  const ValueId wide = b.add(x, x);
  b.output("y", b.columns(wide, {0, 1}));
  const graph::Graph graph = std::move(b).finish();
  const BufferPlan plan = plan_buffers(graph);
  EXPECT_GE(plan.bytes[static_cast<size_t>(buffer_of(plan, narrow))], 2 * 4);
  EXPECT_GE(plan.bytes[static_cast<size_t>(buffer_of(plan, wide))], 16 * 4);  // bf16 is held as f32
}

TEST(PlanBuffers, GivesWeightsAndStatesNone) {
  graph::GraphBuilder b = builder();
  const ValueId length = b.state("length", {DType::kInt32, {1}});
  b.advance(length, b.input("slot", {DType::kInt32, {2}}));
  EXPECT_EQ(buffer_of(plan_buffers(std::move(b).finish()), length), -1);
}

}  // namespace
}  // namespace lockstep::reference
