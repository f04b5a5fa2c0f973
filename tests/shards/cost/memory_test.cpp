#include "shards/cost/memory.h"

#include <gtest/gtest.h>

#include "runtime/backends/cpu/cpu.h"
#include "runtime/graph/passes.h"
#include "shards/shard.h"
#include "tests/model/tiny_models.h"

namespace lockstep::cost {
namespace {

constexpr int64_t kPage = 4096;

checkpoint::ModelSpec tiny() { return checkpoint::parse_spec(model::kTinyLlama, "tiny").value(); }

shards::ShardGraphs graphs_of(const checkpoint::ModelSpec& spec, const shards::ShardOptions& options) {
  return shards::build_graphs(spec, partition::make_partition(spec, 1).value(), 0, options, graph::default_passes())
      .value();
}

// All weights (the embedding whole, not a row of it): 2 layers of 576 + 16, a norm, head and embedding of 8·32.
// Keys and values: 2 layers, 3 slots, 1 head, 48 tokens of 4.
TEST(MemoryOf, CountsByHand) {
  const RankMemory memory =
      memory_of(graphs_of(tiny(), {.slots = 3, .chunk = 4, .capacity = 48, .dtype = DType::kFloat32}));
  EXPECT_EQ(memory.weights.value, (2 * (576 + 16) + 8 + 2 * 256) * 4);
  EXPECT_EQ(memory.cache.value, 2 * 2 * 3 * 48 * 4 * 4);
  EXPECT_GE(memory.slots.value, 3 * 32);  // at least the tokens that each slot has seen
  EXPECT_EQ(memory.total(), memory.weights + memory.cache + memory.slots + memory.workspace);
}

TEST(MemoryOf, HalvesWithTheTypeAndGrowsWithSlotsAndCapacity) {
  const shards::ShardOptions wide{.slots = 2, .chunk = 4, .capacity = 48, .dtype = DType::kFloat32};
  shards::ShardOptions narrow = wide, more = wide, longer = wide;
  narrow.dtype = DType::kBFloat16;
  more.slots = 4;
  longer.capacity = 60;
  const RankMemory base = memory_of(graphs_of(tiny(), wide));
  EXPECT_EQ(memory_of(graphs_of(tiny(), narrow)).weights.value * 2, base.weights.value);
  EXPECT_EQ(memory_of(graphs_of(tiny(), narrow)).cache.value * 2, base.cache.value);
  EXPECT_EQ(memory_of(graphs_of(tiny(), more)).cache.value, base.cache.value * 2);
  EXPECT_EQ(memory_of(graphs_of(tiny(), longer)).cache.value * 48, base.cache.value * 60);
}

// 4 values of 2 bytes become 4 of one, and a scale of 4 bytes; wide heads lose little to it.
TEST(MemoryOf, HalvesKeysAndValuesIn8Bits) {
  checkpoint::ModelSpec spec = tiny();
  const shards::ShardOptions options{.slots = 2, .chunk = 4, .capacity = 48, .dtype = DType::kBFloat16};
  const int64_t rows = 2 * 2 * 2 * 48;
  EXPECT_EQ(memory_of(graphs_of(spec, options)).cache.value, rows * 4 * 2);
  for (const CacheType type : {CacheType::kInt8, CacheType::kFp8}) {
    spec.cache_type = type;
    EXPECT_EQ(memory_of(graphs_of(spec, options)).cache.value, rows * (4 + 4));
  }
  spec.head_dim = 128;
  spec.rope.rotated = 128;
  const int64_t coded = memory_of(graphs_of(spec, options)).cache.value;
  spec.cache_type = CacheType::kModel;
  EXPECT_LT(static_cast<double>(coded), 0.52 * static_cast<double>(memory_of(graphs_of(spec, options)).cache.value));
}

TEST(MemoryOf, CostsAWindowWhatTheWindowNeeds) {
  checkpoint::ModelSpec spec = tiny();
  const shards::ShardOptions options{.slots = 1, .chunk = 4, .capacity = 60, .dtype = DType::kFloat32};
  const int64_t layer = memory_of(graphs_of(spec, options)).cache.value / 2;
  spec.windows = {8, 0};
  const int64_t row = 2 * 4 * 4;  // keys and values of a token
  const int64_t ring = memory_of(graphs_of(spec, options)).cache.value - layer;
  EXPECT_GE(ring, (8 - 1 + 4) * row);  // the window, and the rows of a chunk
  EXPECT_LT(ring, layer / 2);
}

TEST(MemoryOf, CostsALayerTheHeadsOfItsKindAndOneThatSharesACacheNothing) {
  checkpoint::ModelSpec spec = tiny();
  const shards::ShardOptions options{.slots = 1, .chunk = 4, .capacity = 60, .dtype = DType::kFloat32};
  spec.windows = {8, 0};
  const int64_t ring = memory_of(graphs_of(spec, options)).cache.value - 60 * 2 * 4 * 4;
  spec.global_heads = checkpoint::HeadShape{.head_dim = 6, .key_value_heads = 2};
  spec.local_rope = spec.rope;
  spec.rope.rotated = 6;
  EXPECT_EQ(memory_of(graphs_of(spec, options)).cache.value, ring + 60 * 2 * (2 * 6) * 4);
  const int64_t of_two = memory_of(graphs_of(spec, options)).cache.value;
  spec.layers = 4;
  spec.windows = {8, 0, 0, 8};
  EXPECT_EQ(memory_of(graphs_of(spec, options)).cache.value, 2 * of_two);
  spec.layers_sharing_cache = 2;
  EXPECT_EQ(memory_of(graphs_of(spec, options)).cache.value, of_two);
}

/// Expects `found` to be `counted` and at most `slack` for padding.
void expect_near_above(Bytes found, Bytes counted, int64_t slack, const char* what) {
  EXPECT_GE(found.value, counted.value) << what;
  EXPECT_LE(found.value, counted.value + slack) << what;
}

// Sizes that the CPU backend need not pad: panels of 16 rows, tiles of 64 tokens. The rest is whole pages, one for
// each kind of memory, and lines of 64 bytes.
TEST(MemoryOf, IsWhatAShardOnTheCpuAllocates) {
  checkpoint::ModelSpec spec = tiny();
  spec.hidden_size = spec.embedding_size = 64;
  spec.head_dim = 16;
  spec.rope.rotated = 16;
  spec.query_heads = 4;
  spec.key_value_heads = 2;
  spec.intermediate_size = 64;
  spec.vocabulary = 128;
  for (const auto& [group, cache_type] :
       {std::pair{0, CacheType::kModel}, {16, CacheType::kModel}, {0, CacheType::kInt8}, {0, CacheType::kFp8}}) {
    SCOPED_TRACE(testing::Message() << "weights in 8 bits by groups of " << group << ", KV " << to_string(cache_type));
    spec.cache_type = cache_type;
    spec.formats = {};
    if (group > 0) spec.formats = checkpoint::served_formats(*checkpoint::served_format(fmt::format("int8:{}", group)));
    const shards::ShardOptions options{.slots = 2, .chunk = 16, .capacity = 64, .dtype = DType::kFloat32};
    const shards::ShardGraphs graphs = graphs_of(spec, options);
    const RankMemory counted = memory_of(graphs);
    const auto backend = cpu::make_backend({.threads = 1});
    ASSERT_TRUE(backend.has_value());
    const auto shard = shards::Shard::create(graphs, options, *backend.value(), nullptr, shards::RandomWeights());
    ASSERT_TRUE(shard.has_value()) << shard.error().message;
    const device::MemoryReport found = shard.value()->store().memory();
    expect_near_above(found.weights, counted.weights, kPage + 64 * 64, "weights");
    expect_near_above(found.states_reserved, counted.states(), 6 * kPage, "states");
    EXPECT_GE(found.workspace.value, counted.workspace.value);
    EXPECT_LE(found.workspace.value,
              2 * counted.workspace.value + 9 * kPage);  // gaps, sums, and rows laid out for products
  }
}

}  // namespace
}  // namespace lockstep::cost
