// Properties of the families' graphs for any weights: one collective where one suffices, the kernel of the step, rings
// as long as the window.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/graph/verifier.h"
#include "shards/families/family.h"

namespace lockstep::families {
namespace {

using graph::Op;

checkpoint::ModelSpec tiny(const std::string& model_type) {
  checkpoint::ModelSpec spec;
  spec.model_type = model_type;
  spec.hidden_size = spec.embedding_size = 64;
  spec.layers = 4;
  spec.query_heads = 8;
  spec.key_value_heads = 4;
  spec.head_dim = 16;
  spec.attention_scale = 0.25;
  spec.rope.rotated = 16;
  spec.intermediate_size = 96;
  spec.vocabulary = 259;
  spec.max_positions = 128;
  return spec;
}

graph::Graph build(const checkpoint::ModelSpec& spec, const StepShape& shape, int ranks = 2) {
  const partition::Partition partition = partition::make_partition(spec, ranks).value();
  return build_step(spec, partition, shape).value().graph;
}

int64_t count(const graph::Graph& graph, Op op) {
  return std::ranges::count_if(graph.nodes, [op](const graph::Node& node) { return node.op == op; });
}

TEST(Families, AreThoseWhoseConfigsAreRead) {
  std::vector<std::string> read = checkpoint::supported_model_types();
  for (const char* name : {"gemma3", "gemma3n", "gemma4", "gemma4_unified", "gemma4_unified_text", "llama4", "mistral3",
                           "qwen3_5", "qwen3_5_moe"}) {
    std::erase(read, name);  // with pictures, or of other defaults: see their texts
  }
  EXPECT_THAT(family_names(), ::testing::UnorderedElementsAreArray(read));
}

TEST(Families, BuildSoundGraphsOfEveryKindForEveryFamilyAndRank) {
  for (const std::string& name : family_names()) {
    SCOPED_TRACE(name);
    const checkpoint::ModelSpec spec = tiny(name);
    for (const StepKind kind : {StepKind::kPrefill, StepKind::kDecode, StepKind::kVerify}) {
      for (int rank = 0; rank < 3; ++rank) {
        const StepShape shape{.kind = kind, .rank = rank, .slots = 3, .chunk = 7, .drafts = 2, .capacity = 64};
        const auto verified = graph::verify(build(spec, shape, /*ranks=*/3));
        EXPECT_TRUE(verified.has_value()) << verified.error().message;
      }
    }
  }
}

TEST(Families, SendOneRootARankWhereSumsAreTakenByRank) {
  for (const std::string& name : family_names()) {
    SCOPED_TRACE(name);
    const checkpoint::ModelSpec spec = tiny(name);
    const partition::Partition partition =
        partition::make_partition(spec, 3, partition::ExpertSplit::kColumns, partition::Numerics::kFast).value();
    for (int rank = 0; rank < 3; ++rank) {
      const StepShape shape{.rank = rank, .slots = 2, .chunk = 8, .capacity = 64};
      const graph::Graph graph = build_step(spec, partition, shape).value().graph;
      const auto verified = graph::verify(graph);
      ASSERT_TRUE(verified.has_value()) << verified.error().message;
      for (const graph::Node& node : graph.nodes) {
        if (node.op != Op::kAllReduce) continue;
        EXPECT_EQ(node.integers("blocks"), (std::vector<int64_t>{0, 1, 2, 3}));
        EXPECT_EQ(graph.value(node.operands[0]).type.shape[0], 1);
      }
    }
  }
}

TEST(Families, UseThePrefillKernelInPrefillAndTheDecodeKernelInDecodeOnly) {
  for (const std::string& name : family_names()) {
    for (const auto& [kind, kernel] : {std::pair{StepKind::kPrefill, "prefill"}, {StepKind::kDecode, "decode"}}) {
      const graph::Graph graph = build(tiny(name), {.kind = kind, .slots = 2, .chunk = 8, .capacity = 64});
      int64_t attentions = 0;
      for (const graph::Node& node : graph.nodes) {
        if (node.op != Op::kAttention) continue;
        ++attentions;
        EXPECT_EQ(node.text("kernel"), kernel) << name;
      }
      EXPECT_EQ(attentions, 4) << name;
    }
  }
}

TEST(Families, ReduceOncePerLayerWhereAttentionAndMlpStandSideBySide) {
  checkpoint::ModelSpec spec = tiny("gpt_neox");
  const StepShape shape{.slots = 2, .capacity = 64};
  EXPECT_EQ(count(build(spec, shape), Op::kAllReduce), 1 + 2 * spec.layers);
  spec.parallel_residual = true;
  EXPECT_EQ(count(build(spec, shape), Op::kAllReduce), 1 + spec.layers);
  spec.model_type = "gptj";
  EXPECT_EQ(count(build(spec, shape), Op::kAllReduce), 1 + spec.layers);
}

TEST(Families, ReduceAttentionAndMlpSideBySideSoThatEachKeepsItsOrderOfSums) {
  checkpoint::ModelSpec spec = tiny("gptj");
  spec.parallel_residual = true;
  const graph::Graph graph = build(spec, {.slots = 2, .capacity = 64});
  EXPECT_EQ(count(graph, Op::kJoinPartials), spec.layers);
  for (const graph::Node& node : graph.nodes) {
    if (node.op != Op::kJoinPartials) continue;
    EXPECT_EQ(graph.value(*node.result).type.shape[2], 2 * spec.hidden_size);
  }
}

TEST(Families, KeepARingForALayerWithAWindowAndEverythingForOneWithout) {
  checkpoint::ModelSpec spec = tiny("ministral");
  spec.windows = {8, 0, 8, 100};
  const graph::Graph graph = build(spec, {.slots = 2, .most_rows = 4, .capacity = 64});
  const auto rows = [&graph](const char* cache) { return graph.value(*graph.find(cache)).type.shape[2]; };
  EXPECT_EQ(rows("kv.0.k"), 8 - 1 + 4);
  EXPECT_EQ(rows("kv.1.v"), 64);
  EXPECT_EQ(rows("kv.2.v"), 8 - 1 + 4);
  EXPECT_EQ(rows("kv.3.k"), 64);  // no sequence outgrows that window
}

TEST(Families, FinishTheSumsOfExpertsAndOfASharedOneTogether) {
  checkpoint::ModelSpec spec = tiny("qwen2_moe");
  spec.mlp = checkpoint::Mlp::kExperts;
  spec.experts = 4;
  spec.experts_per_token = 2;
  const StepShape shape{.slots = 2, .chunk = 8, .capacity = 64};
  const int64_t without = count(build(spec, shape), Op::kAllReduce);
  spec.shared_expert_size = 2 * spec.intermediate_size;
  spec.shared_expert_gate = true;
  const graph::Graph together = build(spec, shape);
  EXPECT_EQ(count(together, Op::kAllReduce), without);
  EXPECT_EQ(count(together, Op::kJoinPartials), spec.layers);
  EXPECT_EQ(count(together, Op::kScaleRows), spec.layers);
  spec.dense_layers = {0};
  spec.dense_size = 40;
  const graph::Graph mixed = build(spec, shape);
  EXPECT_EQ(count(mixed, Op::kMoeExperts), spec.layers - 1);
  EXPECT_EQ(count(mixed, Op::kAllReduce), without);
  spec.shared_expert_size = 100;  // leaves of another number
  spec.shared_expert_gate = false;
  const graph::Graph apart = build(spec, shape);
  EXPECT_EQ(count(apart, Op::kAllReduce), without + spec.layers - 1);
  EXPECT_EQ(count(apart, Op::kScaleRows), 0);
}

TEST(Families, RoundEachInputOnceForAllProductsThatReadIt) {
  checkpoint::ModelSpec spec = tiny("llama");
  spec.formats.usual = checkpoint::MatrixFormat{.weights = {.bits = 8, .group = checkpoint::MatrixFormat::kWholeRow},
                                                .activations = checkpoint::ActivationFormat::kInt8ByToken};
  spec.formats.exceptions = {{"lm_head.weight", std::nullopt}};
  const StepShape shape{.slots = 2, .chunk = 8, .capacity = 64, .dtype = DType::kBFloat16};
  // Those of q, k and v, of o, of gate and up, and of down.
  EXPECT_EQ(count(build(spec, shape), Op::kFakeQuantise), 4 * spec.layers);
  const partition::Partition gathering =
      partition::make_partition(spec, /*ranks=*/8, partition::ExpertSplit::kColumns, partition::Numerics::kInvariant,
                                partition::GqaMode::kAllGather)
          .value();
  ASSERT_TRUE(gathering.gathers_key_values());
  const graph::Graph graph = build_step(spec, gathering, shape).value().graph;
  EXPECT_EQ(count(graph, Op::kFakeQuantise), 4 * spec.layers);
}

TEST(Families, TakeTheInputOfAProductInTheOrderOfItsColumns) {
  checkpoint::ModelSpec spec = tiny("llama");
  spec.formats.usual = checkpoint::MatrixFormat{.weights = {.bits = 4, .group = 4}, .ordered = true};
  spec.formats.exceptions = {{"lm_head.weight", std::nullopt}};
  const StepShape shape{.slots = 2, .chunk = 8, .capacity = 64};
  ASSERT_LT(spec.key_value_heads, spec.query_heads);
  const graph::Graph of_two = build(spec, shape);
  EXPECT_EQ(count(of_two, Op::kTakeColumns), 5 * spec.layers) << "k and v are decoded";
  EXPECT_EQ(count(of_two, Op::kAllGather), 2 * spec.layers + 1) << "the inputs of o and down, and logits";
}

TEST(Families, GatherGatesWhereALayerDropsSomeOfThem) {
  checkpoint::ModelSpec spec = tiny("gemma3n_text");
  const StepShape shape{.slots = 2, .chunk = 8, .capacity = 64};
  const int64_t without = count(build(spec, shape), Op::kAllGather);
  EXPECT_EQ(count(build(spec, shape), Op::kCutOff), 0);
  spec.gate_sparsity = {0.5, 0.0, 0.95, 0.0};
  const graph::Graph graph = build(spec, shape);
  EXPECT_EQ(count(graph, Op::kAllGather), without + 2);
  std::vector<double> cuts;
  for (const graph::Node& node : graph.nodes) {
    if (node.op != Op::kCutOff) continue;
    EXPECT_EQ(graph.value(node.operands[0]).type.shape[1], spec.intermediate_size);
    cuts.push_back(node.number("deviations"));
  }
  EXPECT_THAT(cuts,
              ::testing::ElementsAre(::testing::DoubleNear(0.0, 1e-12), ::testing::DoubleNear(1.644853627, 1e-9)));
}

TEST(Families, ScaleTheQueriesOfLayersWithoutARope) {
  checkpoint::ModelSpec spec = tiny("ministral3");
  spec.query_scaling = {.beta = 0.1, .every = 16};
  const StepShape shape{.slots = 2, .chunk = 8, .capacity = 64};
  const graph::Graph all = build(spec, shape);
  EXPECT_EQ(count(all, Op::kScaleByPosition), spec.layers);
  const auto node = std::ranges::find_if(all.nodes, [](const auto& n) { return n.op == Op::kScaleByPosition; });
  EXPECT_EQ(all.value(node->operands[2]).type.shape[0], 64 / 16 + 1);
  spec.layers_without_rope = {1, 3};
  EXPECT_EQ(count(build(spec, shape), Op::kScaleByPosition), 2);
}

TEST(Families, PinTheFirstPositionsBesideTheRing) {
  checkpoint::ModelSpec spec = tiny("llama");
  spec.windows = {8, 8, 8, 8};
  spec.pinned_sinks = 4;
  const graph::Graph graph = build(spec, {.slots = 2, .most_rows = 4, .capacity = 64});
  EXPECT_EQ(graph.value(*graph.find("kv.0.k")).type.shape[2], 4 + 8 - 1 + 4);
  const auto node = std::ranges::find_if(graph.nodes, [](const auto& n) { return n.op == Op::kClampPositions; });
  ASSERT_NE(node, graph.nodes.end());
  EXPECT_EQ(node->integer("most"), 4 + 8 - 1);
}

TEST(Families, SayWhichThereAreWhenAModelIsOfNone) {
  const checkpoint::ModelSpec spec = tiny("mamba");
  const auto refused = build_step(spec, partition::make_partition(spec, 1).value(), {.capacity = 64});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
  EXPECT_NE(refused.error().message.find("gpt_oss"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::families
