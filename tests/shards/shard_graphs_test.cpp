// The closed set of graphs of a rank, its sizes, and the weights that it names.
#include "shards/shard_graphs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/shards/fake_backend.h"

namespace lockstep::shards {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LoadWeights, GivesEveryRankItsSliceOfTheSameModel) {
  Fixture whole(1, 0), left(2, 0), right(2, 1);
  // The embedding is cut by rows: the halves, joined, are the whole.
  const auto& all = whole.backend.store->weights.at("model.embed_tokens.weight");
  std::vector<std::byte> joined = left.backend.store->weights.at("model.embed_tokens.weight");
  const auto& rest = right.backend.store->weights.at("model.embed_tokens.weight");
  joined.insert(joined.end(), rest.begin(), rest.end());
  EXPECT_EQ(joined, all);
}

TEST(CollectiveList, IsTheSameTextOnEveryRank) {
  Fixture left(3, 0), right(3, 2);
  EXPECT_EQ(collective_list(left.shard->graphs()), collective_list(right.shard->graphs()));
  EXPECT_THAT(collective_list(left.shard->graphs()), HasSubstr("decode all_reduce 2x16 blocks 0,2,3,4"));
}

TEST(BuildGraphs, MakesExactlyOneGraphAPhaseWithItsOwnAttentionKernel) {
  Fixture f;
  for (const auto& [graph, kernel] : {std::pair(&f.shard->graphs().prefill.front(), "prefill"),
                                      std::pair(&f.shard->graphs().decode.front(), "decode")}) {
    int attentions = 0;
    for (const graph::Node& node : graph->nodes) {
      if (node.op != graph::Op::kAttention) continue;
      ++attentions;
      EXPECT_EQ(node.text("kernel"), kernel);
    }
    EXPECT_EQ(attentions, 2);
  }
  EXPECT_EQ(f.shard->graphs().prefill.front().rows, 4);
  EXPECT_EQ(f.shard->graphs().decode.front().rows, 2);
}

/// The bounds of a graph's attention nodes; 0: none.
std::set<int64_t> bounds_of(const graph::Graph& graph) {
  std::set<int64_t> bounds;
  for (const graph::Node& node : graph.nodes) {
    if (node.op == graph::Op::kAttention) bounds.insert(node.integer_or("bound", 0));
  }
  return bounds;
}

TEST(BuildGraphs, BoundPrefillAndVerifyWhereAttentionCostsTheWholeBucket) {
  ShardOptions options{.slots = 2,
                       .chunk = 8,
                       .capacity = 32,
                       .drafts = 1,
                       .context_buckets = {4, 8},
                       .token_buckets = {8, 32},
                       .bucketed = bucketed_steps({.bounded_attention = false})};
  Fixture all(1, 0, options);
  const ShardGraphs& graphs = all.shard->graphs();
  ASSERT_EQ(graphs.prefill.size(), 2u);
  EXPECT_THAT(bounds_of(graphs.prefill[0]), ElementsAre(8));
  EXPECT_THAT(bounds_of(graphs.prefill[1]), ElementsAre(0));  // of all that a slot holds
  ASSERT_EQ(graphs.verify.size(), 2u);
  EXPECT_THAT(bounds_of(graphs.verify[0]), ElementsAre(8));

  options.bucketed = bucketed_steps({.bounded_attention = true});
  Fixture decode(1, 0, options);
  for (const graph::Graph& graph : decode.shard->graphs().prefill) EXPECT_THAT(bounds_of(graph), ElementsAre(0));
  ASSERT_EQ(decode.shard->graphs().verify.size(), 1u);
  EXPECT_EQ(decode.shard->graphs().verify[0].name, "verify");
}

TEST(BuildGraphs, NameLengthsWherePrefillGraphsHaveTheSameRows) {
  Fixture f(1, 0, {.slots = 1, .chunk = 4, .capacity = 32, .token_buckets = {8, 32}, .bucketed = BucketedSteps::kAll});
  ASSERT_EQ(f.shard->graphs().prefill.size(), 2u);
  EXPECT_EQ(f.shard->graphs().prefill[0].name, "prefill_l8");
  EXPECT_EQ(f.shard->graphs().prefill[1].name, "prefill_l32");
}

TEST(ShardOptions, NameTheFieldThatMakesNoSense) {
  EXPECT_THAT(ShardOptions{.slots = 0}.validate().error().message, HasSubstr("slots 0"));
  EXPECT_THAT(ShardOptions{.chunk = 0}.validate().error().message, HasSubstr("chunk 0"));
  EXPECT_THAT(ShardOptions{.capacity = -1}.validate().error().message, HasSubstr("capacity -1"));
  EXPECT_THAT(ShardOptions{.drafts = -1}.validate().error().message, HasSubstr("drafts -1"));
  EXPECT_THAT((ShardOptions{.capacity = 8, .token_buckets = {4, 4, 8}}.validate().error().message), HasSubstr("4,4,8"));
  EXPECT_THAT((ShardOptions{.chunk = 8, .context_buckets = {4}}.validate().error().message), HasSubstr("rise to 8"));
  EXPECT_THAT((ShardOptions{.slots = 4, .batch_sizes = {1, 2}}.validate().error().message),
              HasSubstr("batch sizes 1,2, expected numbers that rise to 4"));
  EXPECT_FALSE(ShardOptions{.dtype = DType::kInt32}.validate().has_value());
}

}  // namespace
}  // namespace lockstep::shards
