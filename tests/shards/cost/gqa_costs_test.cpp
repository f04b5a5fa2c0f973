#include "shards/cost/gqa_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/graph/passes.h"
#include "shards/cost/group_work.h"

namespace lockstep::cost {
namespace {

using partition::GqaMode;

constexpr int64_t kSlots = 8, kCapacity = 64, kChunk = 16, kLayers = 2, kHeadDim = 16, kHidden = 128;

/// Eight query heads over `key_value_heads`, in float32.
checkpoint::ModelSpec llama(int64_t key_value_heads) {
  checkpoint::ModelSpec spec;
  spec.model_type = "llama";
  spec.hidden_size = spec.embedding_size = kHidden;
  spec.attention_scale = 0.25;
  spec.rope.rotated = kHeadDim;
  spec.layers = kLayers;
  spec.query_heads = 8;
  spec.key_value_heads = key_value_heads;
  spec.head_dim = kHeadDim;
  spec.intermediate_size = 256;
  spec.vocabulary = 512;
  spec.max_positions = 256;
  return spec;
}

std::vector<GqaCost> costs_of(int64_t key_value_heads, int ranks, int64_t slots = kSlots) {
  const auto spec = llama(key_value_heads);
  const auto like = partition::make_partition(spec, ranks).value();
  return gqa_costs(spec, like, {.slots = slots, .chunk = kChunk, .capacity = kCapacity}).value();
}

TEST(GqaCosts, CountWhatARankKeepsInEachMode) {
  const std::vector<GqaCost> costs = costs_of(/*key_value_heads=*/2, /*ranks=*/4);
  const GqaCost &heads = costs[0], &replicated = costs[1], &gathered = costs[2], &batch = costs[3];
  EXPECT_EQ(heads.mode, GqaMode::kReplicated);
  EXPECT_FALSE(heads.why_not.empty());
  const int64_t head_of_slot = 2 * kCapacity * kHeadDim * kLayers * 4;  // keys and values
  EXPECT_EQ(replicated.slot_cache.value, head_of_slot);
  EXPECT_EQ(replicated.cache.value, kSlots * head_of_slot);
  EXPECT_EQ(gathered.cache, replicated.cache);
  EXPECT_EQ(batch.slots, kSlots / 4);
  EXPECT_EQ(batch.slot_cache.value, 2 * head_of_slot);  // both heads, of a quarter of the slots
  EXPECT_EQ(batch.cache.value, replicated.cache.value / 2);
  EXPECT_LT(gathered.weights, replicated.weights);
  EXPECT_EQ(batch.weights, gathered.weights);
}

TEST(GqaCosts, CountWhatARankSendsInEachMode) {
  const std::vector<GqaCost> costs = costs_of(/*key_value_heads=*/2, /*ranks=*/4);
  const GqaCost &replicated = costs[1], &gathered = costs[2], &batch = costs[3];
  EXPECT_EQ(gathered.collectives, replicated.collectives + kLayers);
  EXPECT_EQ(batch.collectives, replicated.collectives + 3 * kLayers);
  // The pieces of k and v: a quarter of two heads' rows of both, of every token row. All other messages are the same,
  // because ranks are equal in every mode.
  const int64_t pieces = 2 * 2 * kHeadDim / 4 * 4 * kLayers;
  EXPECT_EQ(gathered.prefill_sent.value - replicated.prefill_sent.value, kChunk * pieces);
  EXPECT_EQ(gathered.decode_sent.value - replicated.decode_sent.value, kSlots * pieces);
  // In mode batch also q, and the attention output of a quarter of the rows.
  const int64_t queries = 8 * kHeadDim / 4 * 4 * kLayers;
  EXPECT_EQ(batch.decode_sent.value - gathered.decode_sent.value, kSlots * queries + kSlots / 4 * 4 * queries);
}

TEST(GqaCosts, AgreeWithTheGraphs) {
  const auto spec = llama(2);
  for (const GqaMode gqa : {GqaMode::kReplicated, GqaMode::kAllGather, GqaMode::kBatch}) {
    const auto partition =
        partition::make_partition(spec, 4, partition::ExpertSplit::kColumns, partition::Numerics::kInvariant, gqa)
            .value();
    const shards::ShardOptions options{.slots = kSlots, .chunk = kChunk, .capacity = kCapacity};
    const GqaCost cost = gqa_costs(spec, partition, options).value()[static_cast<size_t>(gqa) - 1];
    EXPECT_EQ(cost.mode, gqa);
    int64_t sent = 0, cache = 0;
    for (int rank = 0; rank < 4; ++rank) {
      const auto graphs = shards::build_graphs(spec, partition, rank, options, graph::default_passes()).value();
      sent = std::max(sent, graph::cost_of(graphs.decode.front()).collective_bytes);
      cache = std::max(cache, memory_of(graphs).cache.value);
    }
    EXPECT_EQ(cost.decode_sent.value, sent) << partition::name_of(gqa);
    EXPECT_EQ(cost.cache.value, cache) << partition::name_of(gqa);
  }
}

TEST(GqaCosts, SayWhyAModeIsNotRun) {
  const std::string text = to_text(costs_of(/*key_value_heads=*/2, /*ranks=*/4, /*slots=*/6));
  EXPECT_THAT(text, ::testing::HasSubstr("batch: found 6 slots, expected a multiple of 4 ranks"));
  EXPECT_THAT(text, ::testing::HasSubstr("heads: found 2 of 2 key/value heads"));
}

TEST(StepWork, ChargesWholeSequencesToTheRankThatHasMost) {
  Stretch stretch;
  stretch.attention = {{.seen = 0, .token_bytes = 10, .pair_flops = 1, .sequences = 2}};
  EXPECT_EQ(amounts_of(stretch, {{.count = 8, .first = 4, .rows = 1}}).cache_bytes, 2 * 5 * 10);
  EXPECT_EQ(amounts_of(stretch, {{.count = 1, .first = 4, .rows = 1}}).cache_bytes, 5 * 10);
}

}  // namespace
}  // namespace lockstep::cost
