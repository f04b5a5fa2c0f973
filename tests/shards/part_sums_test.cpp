// Sums of the ranks' parts of a model: they make those of the whole, and every changed bit is found and named.
#include "shards/part_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/shards/summed_ranks.h"

namespace lockstep::shards {
namespace {

using checkpoint::SummedKind;
using checkpoint::WeightSums;
using ::testing::Each;
using ::testing::Field;

checkpoint::ModelSpec uneven_spec() {  // 3 ranks share key/value heads, and divide lanes of no tensor evenly
  return spec_of({.hidden = 48,
                  .query_heads = 9,
                  .key_value_heads = 3,
                  .intermediate = 36,
                  .vocabulary = 50,
                  .positions = 64,
                  .head_dim = 6});
}

TEST(CompareSums, FindsThatTheRanksPartsMakeTheWholeAtEveryDegree) {
  for (const auto& spec : {tiny_spec(), uneven_spec()}) {
    const WeightSums expected = whole_sums(spec);
    for (int ranks = 1; ranks <= 4; ++ranks) {
      const SumComparison found = compare_sums(SummedRanks(spec, ranks, true).read_all(), &expected);
      EXPECT_EQ(found.verified, std::ssize(expected.tensors)) << ranks << " " << found.example;
      EXPECT_EQ(found.verified, found.tensors);
      EXPECT_FALSE(found.suspect);
    }
  }
}

TEST(CompareSums, NamesTensorAndRankOfABitThatChangedInAnySlice) {
  for (const auto& spec : {tiny_spec(), uneven_spec()}) {
    for (const int ranks : {2, 3}) expect_flipped_bits_are_named(SummedRanks(spec, ranks, true), whole_sums(spec));
  }
}

TEST(CompareSums, ComparesWithoutExpectedSumsWhatSeveralRanksHold) {
  const SummedRanks all(uneven_spec(), 3, /*all_wanted=*/false);
  const SummedModel right = all.read_all();
  const SumComparison found = compare_sums(right, nullptr);
  EXPECT_EQ(found.verified, 0);
  EXPECT_GE(found.shared, 5);  // the norms
  EXPECT_EQ(found.shared + found.alone, found.tensors);
  EXPECT_FALSE(found.suspect);
  const std::string norm = "model.layers.1.input_layernorm.weight";
  const auto place = static_cast<int32_t>(std::distance(all.tensors().begin(), all.tensors().find(norm)));
  SummedModel model = right;
  model.sums[1] = all.read(1, FlippedWeights(norm));
  EXPECT_EQ(compare_sums(model, nullptr).suspect, place);
  const auto differing = differing_parts(model, place, all.again(right, place), nullptr);
  EXPECT_THAT(differing, Each(Field(&DifferingPart::rank, 1)));
  EXPECT_FALSE(differing.empty());
}

// What was removed from both lists is still in memory behind them: the rows that are now missing.
TEST(WholeSum, ReadsNothingBehindTheLastPiece) {
  const std::map<std::string, Shape> tensors = {{"w", Shape{2, 8}}};
  std::vector<std::vector<TensorPart>> pieces = {
      {{.rows = {0, 1}, .columns = {0, 8}}, {.rows = {1, 2}, .columns = {0, 8}}}};
  SummedModel model{tensors, pieces, {{{.sum = {1, 2}, .is_summed = true}, {.sum = {3, 4}, .is_summed = true}}}};
  EXPECT_TRUE(whole_sum(model, 0, SummedKind::kFloat32));
  pieces[0].pop_back();
  model.sums[0].pop_back();
  EXPECT_FALSE(whole_sum(model, 0, SummedKind::kFloat32));
}

TEST(DifferingParts, OfARankWhoseOwnFilesDifferAreFoundByAnotherReader) {
  const auto spec = tiny_spec();
  const WeightSums expected = whole_sums(spec);
  const SummedRanks all(spec, 2, true);
  const SummedModel right = all.read_all();
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  const auto place = static_cast<int32_t>(std::distance(all.tensors().begin(), all.tensors().find(name)));
  SummedModel model = right;
  model.sums[1] = all.read(1, FlippedWeights(name));
  auto again = all.again(right, place);
  again[1] = all.again(model, place)[1];  // rank 1 reads the same wrong values again
  const auto differing = differing_parts(model, place, again, &expected.tensors.at(name));
  EXPECT_THAT(differing, Each(Field(&DifferingPart::rank, 1)));
  EXPECT_FALSE(differing.empty());
}

TEST(DifferingParts, AreNoneWhenAllReadersReadWhatTheRanksHold) {
  const auto spec = tiny_spec();
  WeightSums expected = whole_sums(spec);
  const SummedRanks all(spec, 2, true);
  const SummedModel model = all.read_all();
  const auto& [name, shape] = *all.tensors().begin();
  expected.tensors.at(name).sums.at(SummedKind::kFloat32).mixed += 1;
  EXPECT_EQ(compare_sums(model, &expected).suspect, 0);
  EXPECT_TRUE(differing_parts(model, 0, all.again(model, 0), &expected.tensors.at(name)).empty());
}

TEST(CutParts, CutsRowsWhereAnyRankBeginsOrEnds) {
  const auto pieces = cut_parts({{{0, 0, {0, 5}, {0, 8}}}, {{0, 3, {4, 9}, {0, 8}}}});
  EXPECT_EQ(pieces[0], (std::vector<TensorPart>{{0, 0, {0, 4}, {0, 8}}, {0, 0, {4, 5}, {0, 8}}}));
  EXPECT_EQ(pieces[1], (std::vector<TensorPart>{{0, 3, {4, 5}, {0, 8}}, {0, 3, {5, 9}, {0, 8}}}));
  EXPECT_EQ(are_shared(pieces, 0), (std::vector<bool>{false, true}));
  EXPECT_EQ(are_shared(pieces, 1), (std::vector<bool>{true, false}));
}

TEST(WholeSum, NeedsEveryElementOnce) {
  const std::map<std::string, Shape> tensors = {{"w", Shape{4, 16}}};
  const PieceSum sum{.sum = {1, 2}, .is_summed = true};
  const auto found = [&](const std::vector<std::vector<TensorPart>>& pieces) {
    SummedModel model{tensors, pieces, {}};
    for (const auto& of_rank : pieces) model.sums.emplace_back(of_rank.size(), sum);
    return whole_sum(model, 0, SummedKind::kFloat32);
  };
  EXPECT_TRUE(found({{{0, 0, {0, 4}, {0, 8}}}, {{0, 0, {0, 4}, {8, 16}}}}));
  EXPECT_FALSE(found({{{0, 0, {0, 4}, {0, 8}}}}));                              // columns are missing
  EXPECT_FALSE(found({{{0, 0, {0, 3}, {0, 8}}}, {{0, 0, {0, 4}, {8, 16}}}}));   // rows are missing
  EXPECT_FALSE(found({{{0, 0, {0, 4}, {0, 12}}}, {{0, 0, {0, 4}, {8, 16}}}}));  // columns overlap
  const auto divided = found({{{0, 0, {0, 4}, {0, 3}}}, {{0, 0, {0, 4}, {3, 16}}}});
  ASSERT_TRUE(divided);
  EXPECT_FALSE(divided->has_mixed);
  EXPECT_TRUE(divided->equals({5, 4}));
}

}  // namespace
}  // namespace lockstep::shards
