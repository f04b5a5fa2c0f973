#include "shards/cost/expert_reads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/model/tiny_models.h"

namespace lockstep::cost {
namespace {

using model::kTinyMixtral;
using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

checkpoint::ModelSpec mixtral() { return checkpoint::parse_spec(model::kTinyMixtral, "tiny").value(); }

TEST(DistributionOfChosen, IsCertainForOneRow) {
  EXPECT_THAT(distribution_of_chosen(4, 2, 1), ElementsAre(0, 0, 1, 0, 0));
  EXPECT_THAT(distribution_of_chosen(3, 3, 5), ElementsAre(0, 0, 0, 1));
}

// The second row's two of four: both old in 1 of 6 sets, one new in 4, two new in 1.
TEST(DistributionOfChosen, CountsWhatSeveralRowsShareOnce) {
  EXPECT_THAT(distribution_of_chosen(4, 2, 2), Pointwise(DoubleNear(1e-15), {0.0, 0.0, 1.0 / 6, 4.0 / 6, 1.0 / 6}));
}

TEST(DistributionOfChosen, HasTheMeanOfIndependentRows) {
  const std::vector<double> chosen = distribution_of_chosen(32, 4, 10);
  double sum = 0, mean = 0;
  for (size_t d = 0; d < chosen.size(); ++d) {
    sum += chosen[d];
    mean += static_cast<double>(d) * chosen[d];
  }
  EXPECT_NEAR(sum, 1.0, 1e-12);  // rounding of a few hundred products
  EXPECT_NEAR(mean, 32 * (1 - std::pow(1 - 4.0 / 32, 10)), 1e-10);
}

// Two of four experts on two ranks: on one rank in 2 of 6 sets, on both in 4.
TEST(ExpectedBusiest, IsTheMostOfAnyRank) {
  EXPECT_NEAR(expected_busiest({2, 2}, 2, 1), (2 * 2 + 4 * 1) / 6.0, 1e-15);
  EXPECT_NEAR(expected_busiest({4}, 2, 1), 2.0, 1e-15);
  EXPECT_NEAR(expected_busiest({1, 1, 1, 1}, 2, 1), 1.0, 1e-15);
}

TEST(ExpectedBusiest, ReachesAllThatARankHoldsWithManyRows) {
  EXPECT_NEAR(expected_busiest({3, 2, 3}, 2, 1000), 3.0, 1e-12);
}

// 2 layers of experts of 3 · 8 · 16 float32; each of 2 ranks has half of the columns, or 2 of the 4 experts.
TEST(ExpertReads, AreThoseOfTheBusiestRank) {
  constexpr double kExpert = 3 * 8 * 16 * 4, kLayers = 2;
  const auto columns = expert_reads(mixtral(), partition::make_partition(mixtral(), 2).value(), DType::kFloat32, 1);
  EXPECT_DOUBLE_EQ(columns.experts, 2.0);
  EXPECT_DOUBLE_EQ(columns.bytes, kLayers * 2.0 * kExpert / 2);
  const auto divided = partition::make_partition(mixtral(), 2, partition::ExpertSplit::kWhole).value();
  const auto whole = expert_reads(mixtral(), divided, DType::kFloat32, 1);
  EXPECT_NEAR(whole.experts, 4.0 / 3, 1e-12);
  EXPECT_NEAR(whole.bytes, kLayers * 4.0 / 3 * kExpert, 1e-9);
}

TEST(ExpertReads, CountBiases) {
  checkpoint::ModelSpec spec = mixtral();
  spec.mlp_bias = true;
  const auto reads = expert_reads(spec, partition::make_partition(spec, 1).value(), DType::kBFloat16, 1);
  EXPECT_DOUBLE_EQ(reads.bytes, 2 * 2 * (3 * 8 * 16 + 2 * 16 + 8) * 2.0);
}

TEST(CompareExpertSplits, SaysWhichIsCheaperAndHowToGetIt) {
  EXPECT_THAT(compare_expert_splits(mixtral(), 2, DType::kFloat32, 1),
              AllOf(HasSubstr("if 1 row(s) choose 2 of 4"), HasSubstr("2.00 experts a layer"),
                    HasSubstr("1.33 experts a layer"),
                    HasSubstr("cheaper: columns of every expert, without --expert-parallel")));
  EXPECT_THAT(compare_expert_splits(mixtral(), 1, DType::kFloat32, 1), HasSubstr("both read the same"));
}

// 17 columns fall into 2 leaves of 9 and 8, or so: one rank has more than its half of every expert. With whole experts
// and many rows every rank reads exactly its own half.
TEST(CompareExpertSplits, FindsWholeExpertsCheaperWhereColumnsAreUneven) {
  checkpoint::ModelSpec spec = mixtral();
  spec.intermediate_size = 3;
  EXPECT_THAT(compare_expert_splits(spec, 2, DType::kFloat32, 64),
              HasSubstr("cheaper: whole experts, with --expert-parallel"));
}

TEST(CompareExpertSplits, SaysWhatIsImpossible) {
  checkpoint::ModelSpec spec = mixtral();
  spec.query_heads = spec.key_value_heads = 8;
  EXPECT_THAT(compare_expert_splits(spec, 8, DType::kFloat32, 1),
              AllOf(HasSubstr("impossible"), HasSubstr("possible: columns of every expert, without")));
}

}  // namespace
}  // namespace lockstep::cost
