#include "shards/cost/step_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/graph/passes.h"
#include "shards/shard_graphs.h"
#include "tests/model/tiny_models.h"

namespace lockstep::cost {
namespace {

using model::kTinyBloom;
using model::kTinyGemma3;
using model::kTinyGpt2;
using model::kTinyLlama;
using model::kTinyMixtral;
using ::testing::ElementsAre;

checkpoint::ModelSpec spec_of(const char* config) { return checkpoint::parse_spec(config, "tiny").value(); }

shards::ShardGraphs graphs_of(const checkpoint::ModelSpec& spec, int ranks, int rank, int64_t slots = 1) {
  return shards::build_graphs(spec, partition::make_partition(spec, ranks).value(), rank,
                              {.slots = slots, .chunk = 4, .capacity = 200, .dtype = DType::kFloat32},
                              graph::default_passes())
      .value();
}

TEST(SeeingPairs, CountEachRowWithAllThatItSees) {
  EXPECT_EQ(seeing_pairs({.rows = 4}, 0), 1 + 2 + 3 + 4);
  EXPECT_EQ(seeing_pairs({.first = 3, .rows = 2}, 0), 4 + 5);
  EXPECT_EQ(seeing_pairs({.rows = 4}, 2), 1 + 2 + 2 + 2);
  EXPECT_EQ(seeing_pairs({.first = 3, .rows = 2}, 4), 4 + 4);
  EXPECT_EQ(seeing_pairs({.first = 3, .rows = 2}, 3), 3 + 3);
  EXPECT_EQ(seeing_pairs({.first = 3, .rows = 2}, 9), 4 + 5);
}

TEST(PrefillRows, FillChunksWithOnePromptAfterTheOther) {
  const auto steps = prefill_rows({.batch = 2, .prompt_tokens = 5}, /*chunk=*/4);
  EXPECT_THAT(steps, ElementsAre(ElementsAre(cost::Run{1, 0, 4}), ElementsAre(cost::Run{1, 4, 1}, cost::Run{1, 0, 3}),
                                 ElementsAre(cost::Run{1, 3, 2})));
  EXPECT_EQ(rows_of(steps[1]), 4);
}

// Per layer: q and o 8·8 each, k and v 8·4 each, MLP 3·8·16, two norms of 8; a norm at the end, the head 8·32 and one
// row of the embedding. Keys and values of 110 tokens, 1 head of 4. Scores and values of 2 heads of 4.
TEST(StepWork, CountsADecodeStepByHand) {
  const StepWork work = step_work(graphs_of(spec_of(model::kTinyLlama), 1, 0).decode.back());
  const Amounts step = amounts_of(work, decode_rows({.batch = 1, .prompt_tokens = 100, .new_tokens = 20}));
  EXPECT_EQ(step.weight_bytes, (2 * (576 + 16) + 8 + 256 + 8) * 4);
  EXPECT_EQ(step.cache_bytes, 110 * 2 * 2 * 4 * 4);
  EXPECT_EQ(step.flops, 2 * (2 * 576 + 256) + 2 * 110 * 4 * 8);
}

TEST(StepWork, CountsTheRowsOfAChunkThatAreInUse) {
  const StepWork work = step_work(graphs_of(spec_of(model::kTinyLlama), 1, 0).prefill.back());
  const Amounts step = amounts_of(work, {{.first = 4, .rows = 3}});
  EXPECT_EQ(step.weight_bytes, (2 * (576 + 16) + 8 + 256 + 3 * 8) * 4);
  EXPECT_EQ(step.cache_bytes, 7 * 2 * 2 * 4 * 4);
  EXPECT_EQ(step.flops, 3 * 2 * 2 * 576 + 2 * 256 + 2 * (5 + 6 + 7) * 4 * 8);
}

TEST(StepWork, ReadsNoMoreOfTheCacheThanWindowAndPinnedTokens) {
  checkpoint::ModelSpec spec = spec_of(model::kTinyLlama);
  spec.windows = {6, 0};
  spec.pinned_sinks = 4;
  const auto graphs = graphs_of(spec, 1, 0);
  const Amounts decode =
      amounts_of(step_work(graphs.decode.back()), decode_rows({.prompt_tokens = 100, .new_tokens = 20}));
  EXPECT_EQ(decode.cache_bytes, (110 + 10) * 2 * 4 * 4);
  const Amounts prefill = amounts_of(step_work(graphs.prefill.back()), {{.first = 50, .rows = 4}});
  EXPECT_EQ(prefill.cache_bytes, (54 + 13) * 2 * 4 * 4);  // 4 rows see windows that begin one after the other
}

// 3 matrices of 8·16 for each of 4 experts, of which a row chooses 2: on average 4 · (1 − (1 / 2)^rows) are read.
TEST(StepWork, ReadsTheExpertsThatAreChosen) {
  const auto spec = spec_of(model::kTinyMixtral);
  const StepWork work = step_work(graphs_of(spec, 1, 0).decode.back());
  const double expert = 3 * 8 * 16 * 4, layers = 2;
  const auto read = [&](int64_t rows) { return amounts_of(work, {{.count = rows}}).weight_bytes; };
  const double dense = read(1) - layers * 2 * expert;
  EXPECT_DOUBLE_EQ(read(2), dense + layers * 3 * expert + 8 * 4);  // and one row more of the embedding
  for (const Stretch& stretch : work.stretches) {
    if (stretch.experts.empty()) continue;
    const double others = amounts_of(stretch, {{.count = 1}}).weight_bytes - 2 * expert;
    EXPECT_DOUBLE_EQ(amounts_of(stretch, {{.count = 1}}, 1.5).weight_bytes, others + 1.5 * expert);
  }
}

// The counts by node and row add up to explain's output for the whole step.
TEST(StepWork, AddsUpToTheCostOfTheGraph) {
  for (const char* config :
       {model::kTinyLlama, model::kTinyGpt2, model::kTinyBloom, model::kTinyGemma3, model::kTinyMixtral}) {
    for (const int rank : {0, 1}) {
      const auto graphs = graphs_of(spec_of(config), 2, rank, /*slots=*/3);
      for (const graph::Graph* graph : graphs.all()) {
        const graph::StepCost cost = graph::cost_of(*graph);
        const StepWork work = step_work(*graph);
        const auto rows = static_cast<double>(graph->rows);
        double weights = 0, flops = 0, sent = 0;
        for (const Stretch& s : work.stretches) {
          weights += s.weight_bytes + rows * s.row_bytes;
          for (const Experts& experts : s.experts) weights += experts.bytes;
          flops += s.step_flops + rows * s.row_flops;
        }
        for (const Collective& c : work.collectives) sent += c.step_bytes + rows * c.row_bytes;
        EXPECT_NEAR(weights, static_cast<double>(cost.weight_bytes), 1e-6) << graph->name;
        EXPECT_NEAR(flops, static_cast<double>(cost.flops), 1e-6) << graph->name;
        EXPECT_NEAR(sent, static_cast<double>(cost.collective_bytes), 1e-6) << graph->name;
        EXPECT_EQ(static_cast<int64_t>(work.collectives.size()), cost.collectives);
        EXPECT_EQ(work.stretches.size(), work.collectives.size() + 1);
      }
    }
  }
}

// Two ranks, d = 8: one root of 8 float32 a row for each of embedding, attention and MLP; logits of its vocabulary.
TEST(StepWork, SaysWhatARankSends) {
  const auto spec = spec_of(model::kTinyLlama);
  const auto part = partition::make_partition(spec, 2).value();
  const StepWork work = step_work(graphs_of(spec, 2, 0).prefill.back());
  ASSERT_EQ(work.collectives.size(), 1 + 2 * 2 + 1 + 1u);
  const Collective& attention = work.collectives[1];
  EXPECT_EQ(attention.kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(attention.row_bytes, 8 * 4);
  EXPECT_EQ(attention.result_row_bytes, 8 * 4);
  const Collective& logits = work.collectives.back();
  EXPECT_EQ(logits.kind, CollectiveKind::kAllGather);
  EXPECT_EQ(logits.row_bytes, 0);
  EXPECT_EQ(logits.step_bytes, static_cast<double>(part.parts[0].vocabulary.size() * 4));
  EXPECT_EQ(logits.result_step_bytes, 32 * 4);
}

}  // namespace
}  // namespace lockstep::cost
