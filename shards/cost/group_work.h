// Work and memory of all ranks of a tensor-parallel group, counted from their graphs, independent of a machine.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/checkpoint/model_spec.h"
#include "shards/cost/memory.h"
#include "shards/cost/step_work.h"
#include "shards/partition/partition.h"
#include "shards/shard_graphs.h"

namespace lockstep::cost {

/// One rank.
struct RankWork {
  StepWork prefill, decode;  // of the largest graph of each phase
  RankMemory memory;

  friend bool operator==(const RankWork&, const RankWork&) = default;
};

/// A model at one degree.
struct GroupWork {
  std::vector<RankWork> ranks;
  std::vector<int> like;  // by rank: the first rank with graphs of the same sizes
  int64_t chunk = 1;      // rows of a prefill step

  // Whole experts: what each rank holds of a layer, and how many each row chooses. Empty where experts are divided.
  std::vector<int64_t> experts_held;
  int64_t experts_chosen = 0;

  int size() const { return static_cast<int>(ranks.size()); }
  /// The rank with the highest memory use; the first of several.
  int fullest() const;
};

/// Counts every rank's graphs after all passes. Ranks whose parts have the same sizes are counted once. Fails as
/// `shards::build_graphs`.
Result<GroupWork> group_work(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
                             const shards::ShardOptions& options);

}  // namespace lockstep::cost
