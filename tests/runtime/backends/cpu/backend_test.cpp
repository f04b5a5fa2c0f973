#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "runtime/backends/cpu/cpu.h"
#include "runtime/graph/builder.h"

namespace lockstep::cpu {
namespace {

using graph::GraphBuilder;
using graph::ValueId;
using ::testing::HasSubstr;

constexpr int64_t kRows = 16, kSlots = 3, kHeads = 2, kCapacity = 1000, kHeadDim = 24, kLayers = 2;
constexpr int64_t kColumns = kHeads * kHeadDim;

/// Appends its rows to the caches of two layers and attends to them.
graph::Graph cache_graph() {
  GraphBuilder builder({.name = "prefill", .rows = kRows, .slots = kSlots});
  const ValueId x = builder.input("x", {DType::kBFloat16, {kRows, kColumns}});
  const ValueId slot = builder.input("slot", {DType::kInt32, {kRows}});
  const ValueId position = builder.input("position", {DType::kInt32, {kRows}});
  for (int layer = 0; layer < kLayers; ++layer) {
    const TensorType type{DType::kBFloat16, {kSlots, kHeads, kCapacity, kHeadDim}};
    const ValueId k = builder.state("kv." + std::to_string(layer) + ".k", type);
    const ValueId v = builder.state("kv." + std::to_string(layer) + ".v", type);
    builder.kv_append(x, k, slot, position);
    builder.kv_append(x, v, slot, position);
    builder.output("y" + std::to_string(layer),
                   builder.attention(x, k, v, slot, position, {.head_map = {0, 1}, .scale = 0.2, .kernel = "prefill"}));
  }
  return std::move(builder).finish();
}

struct CacheRun {
  int threads = 1;
  std::unique_ptr<device::Backend> backend = make_backend({.threads = threads}).value();
  graph::Graph graph = cache_graph();
  std::unique_ptr<device::Store> store = [this] {
    const device::StepGraph steps[] = {graph};
    return backend->make_store(steps).value();
  }();
  std::unique_ptr<device::Executable> executable = backend->compile(graph, *store, {}).value();

  Result<void> run(int32_t slot, int32_t first_position, int32_t rows) {
    const std::vector<uint16_t> x(kRows * kColumns, to_bfloat16(0.5f).bits);
    std::vector<int32_t> slots(kRows, -1), positions(kRows, 0);
    for (int32_t row = 0; row < rows; ++row) {
      slots[row] = slot;
      positions[row] = first_position + row;
    }
    const std::vector<device::HostTensor> inputs = {
        {{DType::kBFloat16, {kRows, kColumns}}, std::as_bytes(std::span(x))},
        {{DType::kInt32, {kRows}}, std::as_bytes(std::span(slots))},
        {{DType::kInt32, {kRows}}, std::as_bytes(std::span(positions))}};
    return executable->run(inputs);
  }
};

TEST(CpuBackend, CommitsATokenBlockOfASlotWhenItsFirstTokenArrives) {
  CacheRun cache;
  // The formula of cpu.h: keys of 24 dimensions, values rounded up to 32.
  const int64_t block = (64 * kLayers * kHeads * (24 + 32) * 2 + 4095) / 4096 * 4096;
  const int64_t before = cache.store->memory().states_resident.value;
  EXPECT_GE(cache.store->memory().states_reserved.value, kSlots * (kCapacity / 64) * block);
  EXPECT_EQ(before, 0);
  int64_t blocks = 0;
  const auto append = [&](int32_t slot, int32_t position, int64_t new_blocks) {
    ASSERT_TRUE(cache.run(slot, position, 16).has_value());
    blocks += new_blocks;
    const int64_t resident = cache.store->memory().states_resident.value;
    EXPECT_LE(resident, blocks * block) << "slot " << slot << " position " << position;
    EXPECT_GT(resident, (blocks - 1) * block);
  };
  append(1, 0, 1);
  append(1, 16, 0);
  append(1, 48, 0);
  append(1, 64, 1);
  append(0, 0, 1);
  append(1, 120, 1);  // tokens 120 to 135 end in the third block
}

TEST(CpuBackend, RefusesRowsOutsideTheCacheAndWritesNothing) {
  CacheRun cache;
  const auto beyond = cache.run(0, kCapacity - 3, 4);
  ASSERT_FALSE(beyond.has_value());
  EXPECT_EQ(beyond.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(beyond.error().message, HasSubstr("position 1000, expected a slot below 3 and a position below 1000"));
  EXPECT_FALSE(cache.run(kSlots, 0, 1).has_value());
  EXPECT_FALSE(cache.run(0, -1, 1).has_value());
  EXPECT_EQ(cache.store->memory().states_resident.value, 0);
  EXPECT_TRUE(cache.run(0, kCapacity - 4, 4).has_value());
}

TEST(CpuBackend, RunsOnAfterAFailedStepWithEveryNumberOfThreads) {
  for (int threads : {1, 2, 4}) {
    CacheRun cache{.threads = threads};
    for (int repeat = 0; repeat < 100; ++repeat) {
      ASSERT_FALSE(cache.run(0, kCapacity, 1).has_value());
      ASSERT_TRUE(cache.run(0, repeat, 5).has_value());
    }
  }
}

TEST(CpuBackend, KeepsATiedTableOnce) {
  GraphBuilder builder({.name = "decode", .rows = 2, .slots = 2});
  const TensorType type{DType::kBFloat16, {1024, 2048}};
  const ValueId table = builder.weight("table", type, {{"table", {{0, 1024}, {0, 2048}}}});
  const ValueId x = builder.input("x", {DType::kBFloat16, {2, 2048}});
  const ValueId ids = builder.input("ids", {DType::kInt32, {2}});
  builder.output("rows", builder.embedding(ids, table, 0));
  builder.output("logits", builder.linear(x, table, std::nullopt, DType::kFloat32));
  const graph::Graph graph = std::move(builder).finish();
  const device::StepGraph steps[] = {graph};
  const auto backend = make_backend({}).value();
  EXPECT_EQ(backend->make_store(steps).value()->memory().weights.value, 1024 * 2048 * 2);
}

TEST(CpuBackend, RefusesToRunBeforeEveryWeightIsSet) {
  GraphBuilder builder({.name = "decode", .rows = 1, .slots = 1});
  const ValueId w = builder.weight("w", {DType::kFloat32, {4, 4}}, {{"w", {{0, 4}, {0, 4}}}});
  const ValueId x = builder.input("x", {DType::kFloat32, {1, 4}});
  builder.output("y", builder.linear(x, w));
  const graph::Graph graph = std::move(builder).finish();
  const device::StepGraph steps[] = {graph};
  const auto backend = make_backend({}).value();
  const auto store = backend->make_store(steps).value();
  const auto executable = backend->compile(graph, *store, {}).value();
  const std::vector<float> numbers(4, 1.0f);
  const std::vector<device::HostTensor> inputs = {{{DType::kFloat32, {1, 4}}, std::as_bytes(std::span(numbers))}};
  const auto run = executable->run(inputs);
  ASSERT_FALSE(run.has_value());
  EXPECT_EQ(run.error().kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(run.error().message, HasSubstr("weight w was never set"));
}

TEST(CpuBackend, RefusesOptionsThatDoNotFitTheMachineOrEachOther) {
  EXPECT_EQ(make_backend({.threads = 0}).error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(make_backend({.threads = 2, .cores = {0}}).error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(make_backend({.threads = 2, .cores = {0, 100000}}).error().kind, ErrorKind::kUnavailable);
  if (machine_isa() < Isa::kAmx) {
    EXPECT_EQ(make_backend({.isa = Isa::kAmx}).error().kind, ErrorKind::kUnsupported);
  }
}

TEST(CpuBackend, NamesTheOptionThatBringsAnInstructionSet) {
  const std::vector<Isa> built = built_isas();
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16, Isa::kAmx}) {
    const bool is_built = std::ranges::find(built, isa) != built.end();
    const auto checked = driver().check_options({{"instruction-set", std::string(to_string(isa))}});
    EXPECT_EQ(checked.has_value(), is_built);
    if (is_built) continue;
    EXPECT_EQ(checked.error().kind, ErrorKind::kUnsupported);
    EXPECT_THAT(checked.error().message, HasSubstr("LOCKSTEP_CPU_ISAS"));
  }
}

}  // namespace
}  // namespace lockstep::cpu
