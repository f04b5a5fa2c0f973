// The closed set of graphs of a rank, its sizes, and the weights that it names.
#include "shards/shard_graphs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/shards/fake_backend.h"

namespace lockstep::shards {
namespace {

using ::testing::HasSubstr;

TEST(LoadWeights, GivesEveryRankItsSliceOfTheSameModel) {
  Fixture whole(1, 0), left(2, 0), right(2, 1);
  // The embedding is cut by rows: the halves, joined, are the whole.
  const auto& all = whole.backend.store->weights.at("model.embed_tokens.weight");
  std::vector<std::byte> joined = left.backend.store->weights.at("model.embed_tokens.weight");
  const auto& rest = right.backend.store->weights.at("model.embed_tokens.weight");
  joined.insert(joined.end(), rest.begin(), rest.end());
  EXPECT_EQ(joined, all);
  EXPECT_EQ(left.shard->replicated_tensors(), right.shard->replicated_tensors());
  EXPECT_FALSE(left.shard->replicated_tensors().empty());
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
