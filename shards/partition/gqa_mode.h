// Placement of key/value heads in grouped-query attention with more ranks than key/value heads, or with each sequence's
// keys and values on one rank. Two key/value heads (a, b), four ranks:
//
//   mode          projections of k, v     cache of a rank              sent beside the usual sums
//   heads         whole heads, each once  its heads of every slot      nothing (needs no head that ranks share)
//   replicated    a | a | b | b           a | a | b | b                nothing
//   all-gather    a/2 | a/2 | b/2 | b/2   a | a | b | b                the pieces of k and v
//   batch         a/2 | a/2 | b/2 | b/2   a, b of a quarter of slots   q, pieces of k and v; what attention gives
//
// The names follow transformers-neuronx (SHARD_OVER_HEADS, REPLICATED_HEADS, ALL_GATHER_HEADS, SHARD_OVER_BATCH), and
// so does the fallback of a mode that is not possible: heads, else replicated.
#pragma once

#include <optional>
#include <string>

#include "runtime/checkpoint/model_spec.h"
#include "runtime/core/result.h"
#include "shards/partition/head_split.h"
#include "shards/partition/options.h"

namespace lockstep::partition {

/// The mode that is used for a requested mode.
struct GqaChoice {
  GqaMode mode = GqaMode::kHeads;  // never auto
  std::string why_not;             // why the requested mode is not possible; empty if it is used

  friend bool operator==(const GqaChoice&, const GqaChoice&) = default;
};

/// The mode for the heads of `spec` over `ranks` with `slots` sequences (none: as many as the mode wants). Auto is
/// heads where no head is shared, else replicated; what cannot be had becomes the same. Where keys are normed across
/// heads, shared heads are always gathered (as in auto). Pure. Fails as `split_heads`, and with `kUnsupported` where
/// heads must be gathered and there are fewer rows than ranks.
Result<GqaChoice> choose_gqa(GqaMode wanted, const checkpoint::ModelSpec& spec, int ranks,
                             std::optional<int64_t> slots);

}  // namespace lockstep::partition
