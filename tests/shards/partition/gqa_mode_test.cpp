#include "shards/partition/gqa_mode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shards/partition/partition.h"

namespace lockstep::partition {
namespace {

using ::testing::HasSubstr;

checkpoint::ModelSpec spec_of(int64_t query_heads, int64_t key_value_heads, int64_t head_dim = 16) {
  checkpoint::ModelSpec spec;
  spec.model_type = "llama";
  spec.query_heads = query_heads;
  spec.key_value_heads = key_value_heads;
  spec.head_dim = head_dim;
  spec.hidden_size = spec.embedding_size = 64;
  spec.layers = 2;
  spec.intermediate_size = 256;
  spec.vocabulary = 512;
  return spec;
}

GqaChoice chosen(GqaMode wanted, int64_t key_value_heads, int ranks, std::optional<int64_t> slots = std::nullopt) {
  return choose_gqa(wanted, spec_of(8, key_value_heads), ranks, slots).value();
}

TEST(ChooseGqa, IsHeadsWhereNoHeadIsSharedElseReplicated) {
  EXPECT_EQ(chosen(GqaMode::kAuto, 4, 4), (GqaChoice{GqaMode::kHeads, ""}));
  EXPECT_EQ(chosen(GqaMode::kAuto, 2, 4), (GqaChoice{GqaMode::kReplicated, ""}));
  EXPECT_EQ(chosen(GqaMode::kAuto, 4, 3).mode, GqaMode::kReplicated);  // 3 + 3 + 2 query heads
  EXPECT_EQ(chosen(GqaMode::kAuto, 8, 3).mode, GqaMode::kHeads);       // an uneven split without a shared head
  EXPECT_EQ(chosen(GqaMode::kReplicated, 4, 4), (GqaChoice{GqaMode::kHeads, ""}));  // nothing to replicate
}

TEST(ChooseGqa, ReplicatesWhereHeadsCannotBeAndSaysWhy) {
  const GqaChoice choice = chosen(GqaMode::kHeads, 2, 4);
  EXPECT_EQ(choice.mode, GqaMode::kReplicated);
  EXPECT_EQ(choice.why_not, "found 2 of 2 key/value heads that several of 4 ranks need, expected none");
  EXPECT_EQ(chosen(GqaMode::kHeads, 2, 2), (GqaChoice{GqaMode::kHeads, ""}));
}

TEST(ChooseGqa, FallsFromBatchToHeadsThenToReplicated) {
  EXPECT_EQ(chosen(GqaMode::kBatch, 2, 4, 8), (GqaChoice{GqaMode::kBatch, ""}));
  EXPECT_EQ(chosen(GqaMode::kBatch, 4, 4, 8), (GqaChoice{GqaMode::kBatch, ""}));
  const GqaChoice heads = chosen(GqaMode::kBatch, 4, 4, 6);
  EXPECT_EQ(heads.mode, GqaMode::kHeads);
  EXPECT_EQ(heads.why_not, "found 6 slots, expected a multiple of 4 ranks (--batch-size)");
  EXPECT_EQ(chosen(GqaMode::kBatch, 2, 4, 6).mode, GqaMode::kReplicated);
  EXPECT_EQ(chosen(GqaMode::kBatch, 2, 1, 6).mode, GqaMode::kHeads);
}

TEST(ChooseGqa, FallsFromAllGatherToHeadsThenToReplicated) {
  EXPECT_EQ(chosen(GqaMode::kAllGather, 2, 4), (GqaChoice{GqaMode::kAllGather, ""}));
  const GqaChoice heads = chosen(GqaMode::kAllGather, 4, 2);
  EXPECT_EQ(heads.mode, GqaMode::kHeads);
  EXPECT_THAT(heads.why_not, HasSubstr("no two ranks need the same key/value head"));
  const GqaChoice replicated = choose_gqa(GqaMode::kAllGather, spec_of(8, 1, 2), 8, 8).value();
  EXPECT_EQ(replicated.mode, GqaMode::kReplicated);
  EXPECT_THAT(replicated.why_not, HasSubstr("found 4 rows of k and v, expected at least 8"));
}

TEST(ChooseGqa, GathersSharedHeadsThatAreNormedTogether) {
  checkpoint::ModelSpec spec = spec_of(8, 2);
  spec.query_key_norm = spec.norm_across_heads = true;
  EXPECT_EQ(choose_gqa(GqaMode::kAuto, spec, 4, std::nullopt).value(), (GqaChoice{GqaMode::kAllGather, ""}));
  const GqaChoice replicated = choose_gqa(GqaMode::kReplicated, spec, 4, std::nullopt).value();
  EXPECT_EQ(replicated.mode, GqaMode::kAllGather);
  EXPECT_THAT(replicated.why_not, HasSubstr("found a norm across all key heads"));
  EXPECT_EQ(choose_gqa(GqaMode::kAuto, spec, 2, std::nullopt).value().mode, GqaMode::kHeads);
  spec.head_dim = 1;
  const auto too_few = choose_gqa(GqaMode::kAuto, spec, 8, std::nullopt);
  ASSERT_TRUE(too_few.has_error());
  EXPECT_EQ(too_few.error().kind, ErrorKind::kUnsupported);
}

TEST(MakePartition, DividesTheRowsOfGatheredKeysAndValuesEvenly) {
  const checkpoint::ModelSpec spec = spec_of(9, 3);
  const auto divided = [&](GqaMode gqa) {
    return make_partition(spec, 4, ExpertSplit::kColumns, Numerics::kInvariant, gqa).value();
  };
  for (const GqaMode gqa : {GqaMode::kAllGather, GqaMode::kBatch}) {
    const Partition partition = divided(gqa);
    EXPECT_EQ(partition.gqa, gqa);
    int64_t next = 0;
    for (const RankPart& part : partition.parts) {
      EXPECT_EQ(part.key_value_rows.begin, next);
      EXPECT_EQ(part.key_value_rows.size(), 2 * 3 * 16 / 4);
      next = part.key_value_rows.end;
    }
    EXPECT_EQ(next, 2 * 3 * 16);
  }
  EXPECT_EQ(divided(GqaMode::kBatch).parts[1].heads.key_value, (Range{0, 3}));
  EXPECT_EQ(divided(GqaMode::kAllGather).parts[1].heads, divided(GqaMode::kAuto).parts[1].heads);
  EXPECT_EQ(divided(GqaMode::kReplicated), divided(GqaMode::kAuto));
}

TEST(MakePartition, HoldsFewerWeightsWherePiecesAreGathered) {
  const checkpoint::ModelSpec spec = spec_of(8, 1, 64);
  const auto elements = [&](GqaMode gqa) {
    const Partition partition = make_partition(spec, 8, ExpertSplit::kColumns, Numerics::kInvariant, gqa).value();
    int64_t all = 0;
    for (int rank = 0; rank < 8; ++rank) all += weight_elements(spec, partition, rank);
    return all;
  };
  // One key/value head of 64 rows of k and of v, 64 columns, two layers: held by 8 ranks, or once.
  EXPECT_EQ(elements(GqaMode::kReplicated) - elements(GqaMode::kAllGather), 7 * 2 * 64 * 64 * 2);
  EXPECT_EQ(elements(GqaMode::kAllGather), elements(GqaMode::kBatch));
}

}  // namespace
}  // namespace lockstep::partition
