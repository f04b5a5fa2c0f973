// Sums of the ranks' parts of a model: they make those of the whole, and every changed bit is found and named.
#include "shards/part_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/graph/passes.h"
#include "shards/weights.h"
#include "tests/shards/fake_backend.h"

namespace lockstep::shards {
namespace {

using checkpoint::SummedKind;
using checkpoint::WeightSums;
using ::testing::Each;
using ::testing::Field;

/// Random weights; flips a bit of each tensor called `tensor`, in the middle of its first read.
class FlippedWeights final : public WeightSource {
 public:
  explicit FlippedWeights(std::string tensor = "") : tensor_(std::move(tensor)) {}

  Result<void> read(const std::string& tensor, const Shape& whole, std::span<const Range> ranges, DType dtype,
                    std::span<std::byte> dst) const override {
    LOCKSTEP_TRY_VOID(RandomWeights().read(tensor, whole, ranges, dtype, dst));
    if (tensor == tensor_ && !done_) dst[dst.size() / 2] ^= std::byte{4};
    done_ = done_ || tensor == tensor_;
    return ok();
  }

 private:
  const std::string tensor_;
  mutable bool done_ = false;
};

/// The ranks of one model: their pieces, and the sums of what each reads.
class Ranks {
 public:
  Ranks(const checkpoint::ModelSpec& spec, int ranks, bool all_wanted) {
    std::vector<std::vector<TensorPart>> parts;
    for (int rank = 0; rank < ranks; ++rank) {
      graphs_.push_back(
          build_graphs(spec, partition::make_partition(spec, ranks).value(), rank, kOptions, graph::default_passes())
              .value());
      parts.push_back(parts_from_bytes(to_bytes(parts_of(graphs_.back().decode.front(), graphs_.back().tensors))));
    }
    pieces_ = cut_parts(parts);
    for (int rank = 0; rank < ranks; ++rank) {
      const size_t at = static_cast<size_t>(rank);
      wanted_.push_back(all_wanted ? std::vector<bool>(pieces_[at].size(), true) : are_shared(pieces_, at));
    }
  }

  std::vector<PieceSum> read(int rank, const WeightSource& source) const {
    const auto at = static_cast<size_t>(rank);
    PartSums sums(pieces_[at], wanted_[at]);
    FakeStore store(graphs_[at].steps());
    EXPECT_TRUE(load_weights(graphs_[at].decode.front(), graphs_[at].tensors, source, store, &sums).has_value());
    return sums_from_bytes(to_bytes(sums.values()));
  }

  SummedModel read_all() const {
    SummedModel model{graphs_.front().tensors, pieces_, {}};
    for (int rank = 0; rank < size(); ++rank) model.sums.push_back(read(rank, RandomWeights()));
    return model;
  }

  /// Every reader's sums of all pieces of `tensor`: those of `model`, which are right.
  std::vector<std::vector<PieceSum>> again(const SummedModel& model, int32_t tensor) const {
    std::vector<PieceSum> right;
    for (size_t rank = 0; rank < pieces_.size(); ++rank) {
      for (size_t i = 0; i < pieces_[rank].size(); ++i) {
        if (pieces_[rank][i].tensor == tensor) right.push_back(model.sums[rank][i]);
      }
    }
    return std::vector(pieces_.size(), right);
  }

  bool holds(int rank, int32_t tensor) const {
    return std::ranges::count(pieces_[static_cast<size_t>(rank)], tensor, &TensorPart::tensor) > 0;
  }
  int size() const { return static_cast<int>(pieces_.size()); }
  const std::map<std::string, Shape>& tensors() const { return graphs_.front().tensors; }

 private:
  std::vector<ShardGraphs> graphs_;
  std::vector<std::vector<TensorPart>> pieces_;
  std::vector<std::vector<bool>> wanted_;
};

checkpoint::ModelSpec uneven_spec() {  // 3 ranks share key/value heads, and divide lanes of no tensor evenly
  return spec_of({.hidden = 48,
                  .query_heads = 9,
                  .key_value_heads = 3,
                  .intermediate = 36,
                  .vocabulary = 50,
                  .positions = 64,
                  .head_dim = 6});
}

/// The sums of the whole model, as one rank reads it.
WeightSums whole_sums(const checkpoint::ModelSpec& spec) {
  const Ranks one(spec, 1, /*all_wanted=*/true);
  const SummedModel model = one.read_all();
  WeightSums sums;
  for (size_t i = 0; i < model.pieces[0].size(); ++i) {
    const auto& [name, shape] = *std::next(model.tensors.begin(), model.pieces[0][i].tensor);
    sums.tensors[name].sums[SummedKind::kFloat32] = model.sums[0][i].sum;
  }
  return sums;
}

TEST(CompareSums, FindsThatTheRanksPartsMakeTheWholeAtEveryDegree) {
  for (const auto& spec : {tiny_spec(), uneven_spec()}) {
    const WeightSums expected = whole_sums(spec);
    for (int ranks = 1; ranks <= 4; ++ranks) {
      const SumComparison found = compare_sums(Ranks(spec, ranks, true).read_all(), &expected);
      EXPECT_EQ(found.verified, std::ssize(expected.tensors)) << ranks << " " << found.example;
      EXPECT_EQ(found.verified, found.tensors);
      EXPECT_FALSE(found.suspect);
    }
  }
}

TEST(CompareSums, NamesTensorAndRankOfABitThatChangedInAnySlice) {
  for (const auto& spec : {tiny_spec(), uneven_spec()}) {
    const WeightSums expected = whole_sums(spec);
    for (const int ranks : {2, 3}) {
      const Ranks all(spec, ranks, true);
      const SummedModel right = all.read_all();
      int32_t tensor = 0;
      for (const auto& [name, shape] : all.tensors()) {
        for (int rank = 0; rank < ranks; ++rank) {
          if (!all.holds(rank, tensor)) continue;
          SCOPED_TRACE(name + " on rank " + std::to_string(rank));
          SummedModel model = right;
          model.sums[static_cast<size_t>(rank)] = all.read(rank, FlippedWeights(name));
          EXPECT_EQ(compare_sums(model, &expected).suspect, tensor);
          const auto differing = differing_parts(model, tensor, all.again(right, tensor), &expected.tensors.at(name));
          EXPECT_FALSE(differing.empty());
          EXPECT_THAT(differing, Each(Field(&DifferingPart::rank, rank)));
        }
        ++tensor;
      }
    }
  }
}

TEST(CompareSums, ComparesWithoutExpectedSumsWhatSeveralRanksHold) {
  const Ranks all(uneven_spec(), 3, /*all_wanted=*/false);
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
  const Ranks all(spec, 2, true);
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
  const Ranks all(spec, 2, true);
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
