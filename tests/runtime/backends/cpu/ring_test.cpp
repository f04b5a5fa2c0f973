// Layers with and without windows in one store: contents, memory, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "runtime/backends/cpu/cpu.h"
#include "runtime/graph/builder.h"

namespace lockstep::cpu {
namespace {

using graph::ValueId;
using ::testing::HasSubstr;

constexpr int64_t kHeads = 2, kHeadDim = 32, kColumns = kHeads * kHeadDim;
/// Bytes that one cache of a layer takes for 64 tokens.
constexpr int64_t kTileBytes = 64 * kColumns * 4;

/// A model of one full layer and one that sees a window.
struct Sizes {
  int64_t rows = 16;
  int64_t slots = 2;
  int64_t capacity = 2000;
  int64_t window = 100;
  int64_t pinned = 3;
  int64_t ring = 3 + 100 + 15;
};

graph::Graph two_layers(const Sizes& sizes) {
  graph::GraphBuilder builder({.name = "prefill", .rows = sizes.rows, .slots = sizes.slots});
  const ValueId x = builder.input("x", {DType::kFloat32, {sizes.rows, kColumns}});
  const ValueId slot = builder.input("slot", {DType::kInt32, {sizes.rows}});
  const ValueId position = builder.input("position", {DType::kInt32, {sizes.rows}});
  const auto layer = [&](const std::string& name, int64_t capacity, const graph::AttentionOptions& options) {
    const TensorType type{DType::kFloat32, {sizes.slots, kHeads, capacity, kHeadDim}};
    const ValueId k = builder.state("kv." + name + ".k", type), v = builder.state("kv." + name + ".v", type);
    for (const ValueId cache : {k, v}) builder.kv_append(x, cache, slot, position, options.window, options.pinned);
    builder.output(name, builder.attention(x, k, v, slot, position, options));
  };
  graph::AttentionOptions options{.head_map = {0, 1}, .scale = 0.2, .kernel = "prefill"};
  layer("full", sizes.capacity, options);
  options.window = sizes.window;
  options.pinned = sizes.pinned;
  if (sizes.pinned > 0) options.pinned_q = x;
  layer("window", sizes.ring, options);
  return std::move(builder).finish();
}

struct TwoLayers {
  Sizes sizes;
  std::unique_ptr<device::Backend> backend = make_backend({}).value();
  graph::Graph graph = two_layers(sizes);
  std::unique_ptr<device::Store> store = [this] {
    const device::StepGraph steps[] = {graph};
    return backend->make_store(steps).value();
  }();
  std::unique_ptr<device::Executable> executable = backend->compile(graph, *store, {}).value();

  /// Rows at positions [begin, begin + count) of a slot; each row's numbers encode its position.
  Result<void> run(int32_t of_slot, int32_t begin, int32_t count) {
    std::vector<float> x(sizes.rows * kColumns);
    std::vector<int32_t> slot(sizes.rows, -1), position(sizes.rows, 0);
    for (int32_t row = 0; row < count; ++row) {
      slot[row] = of_slot;
      position[row] = begin + row;
      std::fill_n(x.begin() + row * kColumns, kColumns, static_cast<float>(begin + row));
    }
    const std::vector<device::HostTensor> inputs = {
        {{DType::kFloat32, {sizes.rows, kColumns}}, std::as_bytes(std::span(x))},
        {{DType::kInt32, {sizes.rows}}, std::as_bytes(std::span(slot))},
        {{DType::kInt32, {sizes.rows}}, std::as_bytes(std::span(position))}};
    return executable->run(inputs);
  }
  int64_t resident() const { return store->memory().states_resident.value; }
};

TEST(Rings, CostTheWindowWhileFullLayersGrow) {
  TwoLayers model;
  // The record of the contents of a ring's rows: 4 bytes per row, in pages.
  const int64_t record = 2 * 4096;
  for (int32_t begin = 0; begin < 1600; begin += 16) {
    ASSERT_TRUE(model.run(1, begin, 16).has_value());
    const int64_t tiles = (begin + 16 + 63) / 64;
    // A pinned tile and those that 115 turning rows touch.
    const int64_t ring_tiles = std::min<int64_t>(tiles, 1 + 3);
    EXPECT_LE(model.resident(), 2 * kTileBytes * (tiles + ring_tiles) + record) << begin;
  }
  EXPECT_GT(model.resident(), 2 * kTileBytes * (1600 / 64));
}

TEST(Rings, ReserveTheirOwnRowsOnly) {
  const TwoLayers small{.sizes = {.capacity = 1000}}, large{.sizes = {.capacity = 1000 + 64 * 100}};
  EXPECT_EQ(large.store->memory().states_reserved.value - small.store->memory().states_reserved.value,
            small.sizes.slots * 2 * kTileBytes * 100);
}

TEST(Rings, ShowTheLastTokensInTheRowsOfTheGraph) {
  TwoLayers model;
  for (int32_t begin = 0; begin < 480; begin += 16) ASSERT_TRUE(model.run(1, begin, 16).has_value());
  const auto bytes = model.store->read_cache(*model.store->find_state("kv.window.v")).value();
  const auto* numbers = reinterpret_cast<const float*>(bytes.data()) + kHeads * model.sizes.ring * kHeadDim;  // slot 1
  const int64_t turning = model.sizes.ring - model.sizes.pinned;
  for (int64_t position = 480 - turning; position < 480; ++position) {
    EXPECT_EQ(numbers[(3 + (position - 3) % turning) * kHeadDim], static_cast<float>(position));
  }
  for (int64_t position = 0; position < 3; ++position) EXPECT_EQ(numbers[position * kHeadDim], position);
}

TEST(Rings, AttendAtPositionsFarBeyondTheirRows) {
  // Every value is its position, and all scores are large and equal except for their sign: the last key takes all.
  TwoLayers model;
  for (int32_t begin = 0; begin < 960; begin += 16) ASSERT_TRUE(model.run(0, begin, 16).has_value());
  const auto* y = reinterpret_cast<const float*>(model.executable->output("window").data());
  for (int32_t row = 0; row < 16; ++row) EXPECT_FLOAT_EQ(y[row * kColumns], static_cast<float>(944 + row));
}

TEST(Rings, RefuseStepsThatWouldOverwriteAWindowInUse) {
  TwoLayers model{.sizes = {.window = 110}};
  for (int32_t begin = 0; begin < 112; begin += 16) ASSERT_TRUE(model.run(0, begin, 16).has_value());
  const auto run = model.run(0, 112, 7);  // a ring of 115 keeps 110, so 6 rows at a time once it turns
  ASSERT_FALSE(run.has_value());
  EXPECT_EQ(run.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(run.error().message, HasSubstr("found positions 112:119 in one step, expected at most 6 rows"));
  EXPECT_TRUE(model.run(0, 112, 6).has_value());
}

TEST(Rings, KeepTheBoundOfFullLayers) {
  TwoLayers model{.sizes = {.capacity = 128}};
  EXPECT_TRUE(model.run(0, 112, 16).has_value());
  EXPECT_FALSE(model.run(0, 128, 1).has_value());
}

TEST(Rings, RefuseGraphsThatAppendInDifferentWays) {
  const graph::Graph first = two_layers({}), second = two_layers({.pinned = 2});
  const device::StepGraph steps[] = {first, second};
  const auto store = make_backend({}).value()->make_store(steps);
  ASSERT_FALSE(store.has_value());
  EXPECT_THAT(store.error().message, HasSubstr("found it appended to as a ring behind 2 pinned rows, expected a ring "
                                               "behind 3 pinned rows as before"));
}

TEST(LongContexts, NeedNoMoreWorkspace) {
  const TwoLayers small{.sizes = {.capacity = 1000}}, large{.sizes = {.capacity = 40000}};
  EXPECT_EQ(large.store->memory().workspace.value, small.store->memory().workspace.value);
}

TEST(LongContexts, RunTokensOfAPromptOf32k) {
  TwoLayers model{.sizes = {.capacity = 32768}};
  for (int32_t begin = 0; begin < 32768; begin += 16) {
    // Rows far apart leave the tiles in between untouched: only attended rows need memory.
    if (begin % 2048 != 0 && begin != 32752) continue;
    ASSERT_TRUE(model.run(0, begin, 16).has_value());
  }
  const auto* y = reinterpret_cast<const float*>(model.executable->output("full").data());
  EXPECT_FLOAT_EQ(y[0], 32752.0f);
}

}  // namespace
}  // namespace lockstep::cpu
