#include "shards/partition/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::partition {
namespace {

using ::testing::HasSubstr;

checkpoint::ModelSpec smollm2() {
  checkpoint::ModelSpec spec;
  spec.model_type = "llama";
  spec.hidden_size = 576;
  spec.embedding_size = 576;
  spec.layers = 30;
  spec.query_heads = 9;
  spec.key_value_heads = 3;
  spec.head_dim = 64;
  spec.intermediate_size = 1536;
  spec.vocabulary = 49152;
  spec.max_positions = 8192;
  spec.tied_embeddings = true;
  return spec;
}

checkpoint::ModelSpec llama_1b() {
  checkpoint::ModelSpec spec = smollm2();
  spec.hidden_size = 2048;
  spec.embedding_size = 2048;
  spec.layers = 16;
  spec.query_heads = 32;
  spec.key_value_heads = 8;
  spec.intermediate_size = 8192;
  spec.vocabulary = 128256;
  return spec;
}

/// Largest share of a rank over the equal share.
double imbalance(const checkpoint::ModelSpec& spec, const Partition& partition) {
  double total = 0.0, largest = 0.0;
  for (int rank = 0; rank < partition.ranks(); ++rank) {
    const auto elements = static_cast<double>(weight_elements(spec, partition, rank));
    total += elements;
    largest = std::max(largest, elements);
  }
  return largest / (total / partition.ranks());
}

TEST(MakePartition, CoversHeadsColumnsAndVocabularyWithoutGapsAtEveryDegree) {
  for (const auto& spec : {smollm2(), llama_1b()}) {
    for (int ranks = 1; ranks <= largest_degree(spec); ++ranks) {
      const Partition partition = make_partition(spec, ranks).value();
      int64_t head = 0, column = 0, row = 0;
      for (const RankPart& part : partition.parts) {
        EXPECT_EQ(part.heads.query.begin, head);
        EXPECT_EQ(part.mlp_columns.begin, column);
        EXPECT_EQ(part.vocabulary.begin, row);
        EXPECT_GE(part.mlp_columns.size(), 1);
        EXPECT_GE(part.vocabulary.size(), 1);
        head = part.heads.query.end;
        column = part.mlp_columns.end;
        row = part.vocabulary.end;
      }
      EXPECT_EQ(head, spec.query_heads);
      EXPECT_EQ(column, spec.intermediate_size);
      EXPECT_EQ(row, spec.vocabulary);
    }
  }
}

TEST(MakePartition, GivesTheLayersWithGlobalHeadsTheirOwnKeyValueHeads) {
  const checkpoint::ModelSpec spec = checkpoint::parse_spec(R"({"model_type": "gemma4_text", "hidden_size": 64,
      "num_attention_heads": 12, "num_key_value_heads": 6, "head_dim": 8, "intermediate_size": 96, "vocab_size": 100,
      "num_hidden_layers": 2, "attention_k_eq_v": true, "num_global_key_value_heads": 2, "global_head_dim": 6})",
                                                            "config.json")
                                         .value();
  const Partition heads = make_partition(spec, 3).value();
  EXPECT_EQ(heads.gqa, GqaMode::kReplicated);  // three ranks divide six heads, but not two
  EXPECT_EQ(key_values_of(spec, heads.parts[1], 0), (KeyValuePart{{2, 4}, {}}));
  EXPECT_EQ(key_values_of(spec, heads.parts[1], 1), (KeyValuePart{{0, 2}, {}}));
  EXPECT_EQ(key_values_of(spec, heads.parts[2], 1), (KeyValuePart{{1, 2}, {}}));
  const Partition pieces =
      make_partition(spec, 3, ExpertSplit::kColumns, Numerics::kInvariant, GqaMode::kAllGather).value();
  EXPECT_EQ(key_values_of(spec, pieces.parts[1], 0).rows, (Range{32, 64}));  // of k and v, 6 heads of 8
  EXPECT_EQ(key_values_of(spec, pieces.parts[1], 1).rows, (Range{4, 8}));    // of k, which is v: 2 heads of 6
  EXPECT_THAT(to_text(spec, heads), HasSubstr("kv heads of layers without a window: 0:1 0:2 1:2"));
}

TEST(MakePartition, DividesTheInputsOfLayersBetweenRanks) {
  checkpoint::ModelSpec spec = smollm2();
  spec.layers = 2;
  spec.layer_input_size = 5;
  EXPECT_THAT(make_partition(spec, 3).value().layer_input_parts(spec), ::testing::ElementsAre(3, 3, 4));
}

TEST(MakePartition, BalancesTheBytesOfUnevenHeadsWithVocabularyAndColumns) {
  // 5 + 4 query heads with one key/value head held twice: attention alone differs by 17 %.
  EXPECT_LT(imbalance(smollm2(), make_partition(smollm2(), 2).value()), 1.002);
  for (int ranks : {3, 4, 5, 6, 8, 9}) {
    EXPECT_LT(imbalance(smollm2(), make_partition(smollm2(), ranks).value()), 1.02) << ranks;
  }
}

TEST(MakePartition, MovesNoBoundaryWhereHeadsAreEven) {
  const Partition partition = make_partition(llama_1b(), 4).value();
  for (const RankPart& part : partition.parts) {
    EXPECT_EQ(part.heads.query.size(), 8);
    EXPECT_EQ(part.mlp_columns.size(), 2048);
    EXPECT_NEAR(static_cast<double>(part.vocabulary.size()), 128256 / 4.0, 16.0);
  }
}

TEST(MakePartition, PrefersMlpBoundariesWithFewRoots) {
  const Partition partition = make_partition(smollm2(), 2).value();
  EXPECT_EQ(partition.mlp_blocks.leaves(), 32);
  EXPECT_LE(partition.mlp_blocks.roots_of(0).size(), 2u);
  EXPECT_LE(partition.mlp_blocks.roots_of(1).size(), 2u);
}

TEST(MakePartition, GivesOneRankEverything) {
  const Partition partition = make_partition(smollm2(), 1).value();
  EXPECT_EQ(partition.parts.front().mlp_columns, (Range{0, 1536}));
  EXPECT_EQ(partition.parts.front().vocabulary, (Range{0, 49152}));
  EXPECT_EQ(partition.mlp_blocks.roots_of(0).size(), 1u);
}

TEST(MakePartition, RefusesADegreeThatCannotWorkAndListsThoseThatCan) {
  const auto refused = make_partition(smollm2(), 10);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("expected 1 to 9"));
  EXPECT_FALSE(make_partition(smollm2(), 0).has_value());
}

TEST(MakePartition, CutsATinyMlpFineEnoughForEveryDegree) {
  checkpoint::ModelSpec spec = smollm2();
  spec.query_heads = 8;
  spec.key_value_heads = 4;
  spec.intermediate_size = 100;
  spec.vocabulary = 259;
  EXPECT_EQ(mlp_block_columns(spec), 8);
  const Partition partition = make_partition(spec, 8).value();
  EXPECT_EQ(partition.parts.back().mlp_columns.end, 100);
  spec.intermediate_size = 5;  // fewer columns than heads: the columns bound the degree
  EXPECT_EQ(largest_degree(spec), 5);
}

checkpoint::ModelSpec mixtral() {
  checkpoint::ModelSpec spec = llama_1b();
  spec.mlp = checkpoint::Mlp::kExperts;
  spec.experts = 8;
  spec.experts_per_token = 2;
  return spec;
}

TEST(MakePartition, DividesEveryExpertByColumnsUnlessAsked) {
  const Partition partition = make_partition(mixtral(), 4).value();
  for (const RankPart& part : partition.parts) {
    EXPECT_EQ(part.experts, (Range{0, 8}));
    EXPECT_EQ(part.mlp_columns.size(), 2048);
  }
}

TEST(MakePartition, MakesUpForWhatAStepReadsOfTheExpertsNotForAllOfThem) {
  checkpoint::ModelSpec spec = mixtral();
  spec.experts = 32;
  spec.experts_per_token = 4;
  spec.intermediate_size = 2880;  // 36 leaves of 80 columns: ranks get 4 or 5 of them
  const Partition partition = make_partition(spec, 8).value();
  for (const RankPart& part : partition.parts) EXPECT_GT(part.vocabulary.size(), spec.vocabulary / 16);
}

TEST(MakePartition, GivesWholeExpertsToRanksWhenAsked) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    const Partition partition = make_partition(mixtral(), ranks, ExpertSplit::kWhole).value();
    int64_t next = 0;
    for (const RankPart& part : partition.parts) {
      EXPECT_EQ(part.experts.begin, next);
      EXPECT_GE(part.experts.size(), 1);
      EXPECT_EQ(part.mlp_columns, (Range{0, 8192}));
      next = part.experts.end;
    }
    EXPECT_EQ(next, 8);
    EXPECT_EQ(partition.expert_blocks.leaves(), 8);
  }
  EXPECT_THAT(to_text(mixtral(), make_partition(mixtral(), 3, ExpertSplit::kWhole).value()), HasSubstr("experts 0:3"));
}

/// The columns of all ranks, in order; they must follow each other and hold all.
void expect_covers(const ColumnSplit& split, int ranks, int64_t columns) {
  int64_t next = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(split.of(rank).begin, next);
    EXPECT_GE(split.of(rank).size(), 1);
    next = split.of(rank).end;
  }
  EXPECT_EQ(next, columns);
}

TEST(MakePartition, DividesASharedExpertAndDenseLayersByColumns) {
  checkpoint::ModelSpec spec = mixtral();
  spec.intermediate_size = 1408;
  spec.dense_layers = {0, 2};
  spec.dense_size = 5000;
  for (const int64_t shared : {1408, 4 * 1408, 1000}) {
    spec.shared_expert_size = shared;
    for (const ExpertSplit experts : {ExpertSplit::kColumns, ExpertSplit::kWhole}) {
      for (int ranks = 1; ranks <= 8; ++ranks) {
        const Partition partition = make_partition(spec, ranks, experts).value();
        expect_covers(partition.shared_expert, ranks, shared);
        expect_covers(partition.dense_layers, ranks, 5000);
        // One sum serves the experts and a shared expert that is a whole number of times as wide.
        const bool is_alike = partition.shared_expert.blocks == partition.mlp_blocks;
        EXPECT_EQ(is_alike, experts == ExpertSplit::kColumns && shared % 1408 == 0) << shared << " " << ranks;
      }
    }
  }
  EXPECT_THAT(to_text(spec, make_partition(spec, 2).value()), HasSubstr("shared expert: 0:"));
  spec.shared_expert_size = 5;  // fewer columns than heads bound the degree
  EXPECT_EQ(largest_degree(spec), 5);
  spec.dense_size = 3;
  EXPECT_EQ(largest_degree(spec), 3);
}

TEST(MakePartition, CountsTheWeightsOfASharedExpertAndOfDenseLayers) {
  checkpoint::ModelSpec spec = mixtral();
  const int64_t plain = weight_elements(spec, make_partition(spec, 1).value(), 0);
  spec.shared_expert_size = 100;
  const int64_t shared = weight_elements(spec, make_partition(spec, 1).value(), 0);
  EXPECT_EQ(shared - plain, 3 * 100 * spec.hidden_size * spec.layers);
  spec.dense_layers = {1};
  spec.dense_size = 64;
  const int64_t dense = weight_elements(spec, make_partition(spec, 1).value(), 0);
  EXPECT_EQ(dense - shared, 3 * spec.hidden_size * (64 - 100 - 8 * spec.intermediate_size));
}

TEST(MakePartition, RefusesWholeExpertsWhereThereAreNoneOrTooFew) {
  const auto none = make_partition(llama_1b(), 2, ExpertSplit::kWhole);
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().message, HasSubstr("without experts"));
  const auto few = make_partition(mixtral(), 9, ExpertSplit::kWhole);
  ASSERT_FALSE(few.has_value());
  EXPECT_THAT(few.error().message, HasSubstr("8 experts"));
}

TEST(MakePartition, GivesAttentionAndMlpTheSameLeavesWhereTheyStandSideBySide) {
  checkpoint::ModelSpec spec = llama_1b();
  spec.mlp = checkpoint::Mlp::kPlain;
  spec.parallel_residual = true;
  for (const int64_t columns : {8192, 8190, 37}) {
    spec.intermediate_size = columns;
    for (int ranks : {1, 2, 3, 5, 32}) {
      const Partition partition = make_partition(spec, ranks).value();
      EXPECT_EQ(partition.mlp_blocks == partition.attention_blocks, columns != 37) << columns << " " << ranks;
      EXPECT_EQ(partition.parts.back().mlp_columns.end, columns);
    }
  }
}

TEST(MakePartition, MakesLeavesAsWideAsFourGroupsOf8BitIntegersIfEveryDegreeKeepsOne) {
  checkpoint::ModelSpec spec = smollm2();
  spec.formats = checkpoint::served_formats(*checkpoint::served_format("int8:32"));
  EXPECT_EQ(mlp_block_columns(spec), 128);  // 12 leaves for 9 heads
  spec.formats = checkpoint::served_formats(*checkpoint::served_format("int8:64"));
  EXPECT_EQ(mlp_block_columns(spec), 128);  // whole groups: 192 would make 8 leaves for 9 heads
}

TEST(MakePartition, CutsExpertsByTheSameRule) {
  EXPECT_EQ(mlp_block_columns(mixtral()), 8192 / 32);
  checkpoint::ModelSpec spec = mixtral();
  spec.intermediate_size = 2880;
  EXPECT_EQ(mlp_block_columns(spec), 80);  // 36 leaves for 32 heads; 96 columns would make 30
  spec.query_heads = spec.key_value_heads = 64;
  EXPECT_EQ(mlp_block_columns(spec), 32);
}

TEST(PartitionText, HasALineForEachRank) {
  const std::string text = to_text(smollm2(), make_partition(smollm2(), 2).value());
  EXPECT_THAT(text, HasSubstr("0:5"));
  EXPECT_THAT(text, HasSubstr("5:9"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

}  // namespace
}  // namespace lockstep::partition
