// Ranks that sum what they read of a model of random weights, with and without a flipped bit.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/graph/passes.h"
#include "shards/part_sums.h"
#include "shards/weights.h"
#include "tests/shards/fake_backend.h"

namespace lockstep::shards {

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
class SummedRanks {
 public:
  SummedRanks(const checkpoint::ModelSpec& spec, int ranks, bool all_wanted,
              partition::ExpertSplit experts = partition::ExpertSplit::kColumns) {
    std::vector<std::vector<TensorPart>> parts;
    for (int rank = 0; rank < ranks; ++rank) {
      graphs_.push_back(build_graphs(spec, partition::make_partition(spec, ranks, experts).value(), rank, kOptions,
                                     graph::default_passes())
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

/// The sums of the whole model, as one rank reads it.
inline checkpoint::WeightSums whole_sums(const checkpoint::ModelSpec& spec) {
  const SummedRanks one(spec, 1, /*all_wanted=*/true);
  const SummedModel model = one.read_all();
  checkpoint::WeightSums sums;
  for (int32_t tensor = 0; const auto& [name, shape] : model.tensors) {
    sums.tensors[name].sums[checkpoint::SummedKind::kFloat32] =
        whole_sum(model, tensor++, checkpoint::SummedKind::kFloat32).value().sum;
  }
  return sums;
}

/// Flips a bit of each tensor on each rank in turn, and expects that `compare_sums` suspects the tensor and
/// `differing_parts` names the rank.
inline void expect_flipped_bits_are_named(const SummedRanks& all, const checkpoint::WeightSums& expected) {
  const SummedModel right = all.read_all();
  for (int32_t tensor = 0; const auto& [name, shape] : all.tensors()) {
    for (int rank = 0; rank < all.size(); ++rank) {
      if (!all.holds(rank, tensor)) continue;
      SCOPED_TRACE(name + " on rank " + std::to_string(rank) + " of " + std::to_string(all.size()));
      SummedModel model = right;
      model.sums[static_cast<size_t>(rank)] = all.read(rank, FlippedWeights(name));
      EXPECT_EQ(compare_sums(model, &expected).suspect, tensor);
      const auto differing = differing_parts(model, tensor, all.again(right, tensor), &expected.tensors.at(name));
      EXPECT_FALSE(differing.empty());
      EXPECT_THAT(differing, ::testing::Each(::testing::Field(&DifferingPart::rank, rank)));
    }
    ++tensor;
  }
}

}  // namespace lockstep::shards
