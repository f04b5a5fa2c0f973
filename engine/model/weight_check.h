// Comparison of the ranks' weights with each other and with the checkpoint's sums.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/group/member.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/weight_sums.h"
#include "shards/part_sums.h"
#include "shards/shard_graphs.h"
#include "shards/weights.h"

namespace lockstep::model {

/// The check of one model. On every rank: `share_parts`, loading with `sums`, `compare`.
class WeightCheck {
 public:
  /// `name` in messages: "the model".
  explicit WeightCheck(std::string name) : name_(std::move(name)) {}

  /// Reads the sums beside `model`, if there are any; on rank 0 only. Fails for sums that cannot be read or are of
  /// other files than those of `checkpoint`.
  Result<void> read_sums(const std::filesystem::path& model, const checkpoint::Checkpoint& checkpoint);

  /// Exchanges which rank holds what. @collective @blocking
  Result<void> share_parts(group::Member& member, const shards::ShardGraphs& graphs);

  /// Sums what is read; null if nothing is to be compared.
  shards::PartSums* sums() const { return sums_.get(); }

  /// Compares what the ranks have read. Where it differs, all read it again from `source`, and the error names the
  /// tensor and the rank. The check is then over. @collective @blocking
  Result<void> compare(group::Member& member, const shards::WeightSource& source);

  /// After `compare`, on rank 0: what was verified, and what was not.
  std::string in_words() const;

 private:
  using Pieces = std::vector<std::vector<shards::TensorPart>>;
  using Sums = std::vector<std::vector<shards::PieceSum>>;

  Result<Sums> exchange(group::Member& member, std::span<const shards::PieceSum> own) const;
  Result<void> explain(group::Member& member, const shards::SummedModel& model, int32_t tensor,
                       const shards::WeightSource& source) const;
  Error error_of(const shards::SummedModel& model, int32_t tensor, const Sums& again) const;

  const std::string name_;
  std::optional<std::filesystem::path> sums_path_;  // on rank 0, if there are sums
  std::optional<checkpoint::WeightSums> expected_;  // likewise
  std::map<std::string, Shape> tensors_;
  Pieces pieces_;
  std::unique_ptr<shards::PartSums> sums_;
  shards::SumComparison comparison_;
};

}  // namespace lockstep::model
