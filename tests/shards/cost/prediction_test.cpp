#include "shards/cost/prediction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/graph/passes.h"
#include "tests/model/tiny_models.h"

namespace lockstep::cost {
namespace {

using model::kTinyLlama;
using model::kTinyMixtral;

const MachineLimits kMachine{.rank = {.read_bytes_per_s = 100, .flops_per_s = 1000},
                             .link = {.rows = {{.latency_s = 0.5, .bytes_per_s = 50}}}};

checkpoint::ModelSpec spec_of(const char* config) { return checkpoint::parse_spec(config, "tiny").value(); }

GroupWork group_of(const checkpoint::ModelSpec& spec, int ranks,
                   partition::ExpertSplit experts = partition::ExpertSplit::kColumns) {
  return group_work(spec, partition::make_partition(spec, ranks, experts).value(),
                    {.slots = 2, .chunk = 4, .capacity = 32, .dtype = DType::kFloat32})
      .value();
}

/// Two ranks and two stretches, in which one rank and then the other is the slower.
GroupWork uneven() {
  const Collective sum{.kind = CollectiveKind::kAllReduce, .row_bytes = 25, .result_row_bytes = 25};
  const StepWork first{.stretches = {{.weight_bytes = 300}, {.weight_bytes = 100, .attention = {{.token_bytes = 5}}}},
                       .collectives = {sum}};
  const StepWork second{.stretches = {{.weight_bytes = 200}, {.weight_bytes = 100, .step_flops = 2500}},
                        .collectives = {sum}};
  return {.ranks = {{.prefill = first, .decode = first}, {.prefill = second, .decode = second}}, .chunk = 4};
}

TEST(GroupWork, NamesTheFirstRankWithGraphsOfTheSameSizes) {
  for (const int ranks : {1, 2}) {
    const GroupWork group = group_of(spec_of(kTinyLlama), ranks);
    ASSERT_EQ(group.like.size(), group.ranks.size());
    for (size_t rank = 0; rank < group.ranks.size(); ++rank) {
      const auto like = static_cast<size_t>(group.like[rank]);
      EXPECT_LE(like, rank);
      EXPECT_EQ(group.like[like], group.like[rank]);
      EXPECT_EQ(group.ranks[like], group.ranks[rank]);
    }
  }
  EXPECT_THAT(group_of(spec_of(kTinyLlama), 2).like, testing::ElementsAre(0, 0));
}

TEST(PredictStep, LastsAsLongAsTheSlowestRankBetweenTwoCollectives) {
  // Reading: 3 s against 2 s. Then 1 s and 10 tokens · 5 bytes: 0.5 s, against 1 s and 1.5 s more of arithmetic.
  const StepParts step = predict_step(uneven(), &RankWork::decode, {{.first = 9, .rows = 1}}, kMachine);
  EXPECT_DOUBLE_EQ(step.weights_s, 3 + 1);
  EXPECT_DOUBLE_EQ(step.cache_s, 0);
  EXPECT_DOUBLE_EQ(step.compute_s, 1.5);
  EXPECT_DOUBLE_EQ(step.communication_s, 0.5 + 25.0 / 50);
  EXPECT_DOUBLE_EQ(step.total(), 4 + 1.5 + 1);
  EXPECT_DOUBLE_EQ(step.communication_share(), 1 / 6.5);
}

TEST(PredictStep, ChargesTheCacheOfASlowRank) {
  // 60 tokens · 5 bytes: 3 s and 1 s of weights, more than the other's 2.5 s.
  const StepParts step = predict_step(uneven(), &RankWork::decode, {{.first = 59, .rows = 1}}, kMachine);
  EXPECT_DOUBLE_EQ(step.cache_s, 3);
  EXPECT_DOUBLE_EQ(step.compute_s, 0);
}

TEST(Predict, MakesSpeedsOfSteps) {
  // Decode with 2 sequences of 10 tokens on average: 3 s, and 1 s + 1 s of cache or 2.5 s; 0.5 s + 50 bytes / 50.
  const Workload load{.batch = 2, .prompt_tokens = 5, .new_tokens = 10};
  const Prediction p = predict(uneven(), load, kMachine);
  EXPECT_DOUBLE_EQ(p.tpot_s, 3 + 2.5 + 1.5);
  EXPECT_DOUBLE_EQ(p.tpot_s, p.decode.total());
  EXPECT_DOUBLE_EQ(p.decode_tokens_per_s, 2 / 7.0);
  // 10 rows in chunks of 4, 4 and 2: 5.5 s each, 0.5 s and 2, 2 or 1 s of messages (in slices no faster).
  EXPECT_DOUBLE_EQ(p.prefill.total(), 3 * 5.5 + 3 * 0.5 + 5);
  EXPECT_DOUBLE_EQ(p.prefill_tokens_per_s, 10 / p.prefill.total());
  // The first prompt ends in the second chunk; its token is out when the next step agreed.
  EXPECT_DOUBLE_EQ(p.ttft_s, 2 * 5.5 + 2 * 0.5 + 4 + 7);
}

TEST(Predict, ScalesWithTheMachine) {
  MachineLimits twice = kMachine;
  twice.rank = {200, 2000};
  const Workload load{.prompt_tokens = 5, .new_tokens = 10};
  const StepParts slow = predict(uneven(), load, kMachine).decode, fast = predict(uneven(), load, twice).decode;
  EXPECT_DOUBLE_EQ(slow.weights_s, 2 * fast.weights_s);
  EXPECT_DOUBLE_EQ(slow.compute_s, 2 * fast.compute_s);
  EXPECT_DOUBLE_EQ(slow.communication_s, fast.communication_s);
}

// All bytes of a decode step at 100 bytes/s; arithmetic takes less in every stretch, and one rank sends nothing.
TEST(Predict, IsBytesOverBandwidthForOneRank) {
  const GroupWork group = group_of(spec_of(model::kTinyLlama), 1);
  MachineLimits machine = kMachine;
  machine.rank.flops_per_s = 1e9;
  const Workload load{.batch = 2, .prompt_tokens = 10, .new_tokens = 4};
  const Prediction p = predict(group, load, machine);
  EXPECT_NEAR(p.decode.weights_s, (2 * (576 + 16) + 8 + 256 + 2 * 8) * 4 / 100.0, 1e-9);
  EXPECT_NEAR(p.decode.cache_s, 2 * 12 * 2 * 2 * 4 * 4 / 100.0, 1e-9);
  EXPECT_EQ(p.decode.compute_s, 0);
  EXPECT_EQ(p.decode.communication_s, 0);
  EXPECT_EQ(p.prefill.communication_s, 0);
}

TEST(Predict, ReadsOneOfTwoExpertsOnEachOfTwoRanks) {
  // 2 layers, 2 of 4 experts of 3·8·16 float32 for one row: half of each on both ranks, or on the busiest 4 / 3.
  const auto spec = spec_of(model::kTinyMixtral);
  const Workload load{.prompt_tokens = 4, .new_tokens = 2};
  const double expert_s = 3 * 8 * 16 * 4 / 100.0;
  const double columns = predict(group_of(spec, 2), load, kMachine).decode.weights_s;
  const double whole = predict(group_of(spec, 2, partition::ExpertSplit::kWhole), load, kMachine).decode.weights_s;
  EXPECT_NEAR(whole - columns, 2 * (4.0 / 3 - 1) * expert_s, 1e-9);
}

TEST(GroupWork, CountsRanksOfEqualSizesAsEachWouldBeCounted) {
  checkpoint::ModelSpec spec = spec_of(model::kTinyLlama);
  spec.query_heads = 9;
  spec.key_value_heads = 3;
  spec.intermediate_size = 72;
  spec.vocabulary = 100;
  const shards::ShardOptions options{.slots = 2, .chunk = 4, .capacity = 32};
  for (const int ranks : {2, 4, 7, 9}) {
    const auto partition = partition::make_partition(spec, ranks).value();
    const GroupWork group = group_work(spec, partition, options).value();
    ASSERT_EQ(group.size(), ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto graphs = shards::build_graphs(spec, partition, rank, options, graph::default_passes()).value();
      const RankWork& counted = group.ranks[static_cast<size_t>(rank)];
      EXPECT_EQ(counted.decode, step_work(graphs.decode.back())) << ranks << " ranks, rank " << rank;
      EXPECT_EQ(counted.prefill, step_work(graphs.prefill.back())) << ranks << " ranks, rank " << rank;
      EXPECT_EQ(counted.memory, memory_of(graphs)) << ranks << " ranks, rank " << rank;
    }
  }
}

TEST(GroupWork, FindsTheFullestRank) {
  GroupWork group = uneven();
  EXPECT_EQ(group.fullest(), 0);
  group.ranks[1].memory.cache = Bytes(1);
  EXPECT_EQ(group.fullest(), 1);
}

}  // namespace
}  // namespace lockstep::cost
