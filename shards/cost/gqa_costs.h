// The costs of the modes of grouped-query attention (shards/partition/gqa_mode.h) at a degree: memory and sent bytes of
// a rank, counted from the graphs of every rank.
#pragma once

#include <string>
#include <vector>

#include "runtime/checkpoint/model_spec.h"
#include "runtime/core/ids.h"
#include "shards/partition/partition.h"
#include "shards/shard_graphs.h"

namespace lockstep::cost {

/// One mode at one degree; bytes are those of the rank with most.
struct GqaCost {
  partition::GqaMode wanted = partition::GqaMode::kHeads;
  partition::GqaMode mode = partition::GqaMode::kHeads;  // used instead, if `wanted` is not possible
  std::string why_not;                                   // empty: it is `wanted`
  Bytes weights;
  Bytes cache;              // of all slots that a rank holds
  Bytes slot_cache;         // of one slot, on a rank that holds it
  int64_t slots = 0;        // that a rank holds
  int64_t collectives = 0;  // of a decode step
  Bytes decode_sent;        // in a decode step with every slot in use
  Bytes prefill_sent;       // in a prefill step whose rows are all in use

  friend bool operator==(const GqaCost&, const GqaCost&) = default;
};

/// A row for every mode, in the order of `partition::kGqaModes`. Fails as `group_work`.
Result<std::vector<GqaCost>> gqa_costs(const checkpoint::ModelSpec& spec, const partition::Partition& like,
                                       const shards::ShardOptions& options);

/// The rows as a table.
std::string to_text(const std::vector<GqaCost>& costs);

}  // namespace lockstep::cost
