// The closed set of graphs of one rank, compiled at start, before the first request.
//
//   prefill        one, or one for each context bucket          decode     one for each batch size and token bucket
//   verify         only with drafts: the last token of every slot and its drafts, scored together
//
// If attention costs the whole bucket, prefill and verify steps also have token buckets (`BucketedSteps::kAll`): one
// verify graph for each, and the prefill graphs of `prefill_sizes`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/core/field_list.h"
#include "runtime/device/backend.h"
#include "runtime/graph/passes.h"
#include "shards/buckets.h"
#include "shards/families/family.h"
#include "shards/partition/partition.h"

namespace lockstep::shards {

/// The steps that have token buckets.
enum class BucketedSteps { kDecode, kAll };

/// All steps, if attention cannot stop at the length in use.
BucketedSteps bucketed_steps(const device::Capabilities& backend);

/// The static sizes of a shard.
struct ShardOptions {
  int64_t slots = 1;
  int64_t chunk = 256;      // rows of a prefill step
  int64_t capacity = 2048;  // tokens that a slot holds
  int64_t drafts = 0;       // tokens that a verify step scores after a slot's last one; 0: no such graph
  int64_t score_rows = 0;   // of a score step, at most `chunk`; 0: no such graph
  int64_t score_top = 0;    // likeliest ids that it returns for each row
  families::StepShape::Logits score_logits = families::StepShape::Logits::kDropped;  // of every scored row
  std::vector<int64_t> batch_sizes;      // rising, the last is `slots`; empty: decode steps of all slots
  std::vector<int64_t> context_buckets;  // rising, the last is `chunk`; empty: one prefill graph
  std::vector<int64_t> token_buckets;    // rising, the last is `capacity`; empty: one decode graph
  BucketedSteps bucketed = BucketedSteps::kDecode;
  DType dtype = DType::kFloat32;
  families::StepShape::Logits logits = families::StepShape::Logits::kDropped;
  families::StepShape::Embeddings embeddings = families::StepShape::Embeddings::kOfIds;

  /// Fails with `kInvalidArgument`, naming the invalid field.
  Result<void> validate() const;

  /// The prefill graphs, in their order.
  std::vector<PrefillSize> prefill_sizes() const;
};
LOCKSTEP_FIELDS(ShardOptions, slots, chunk, capacity, drafts, score_rows, score_top, score_logits, batch_sizes,
                context_buckets, token_buckets, bucketed, dtype, logits, embeddings);

/// The graphs of a rank, after the passes, and the checkpoint tensors behind their weights.
struct ShardGraphs {
  std::vector<graph::Graph> prefill;  // by rows, rising, then by the bound on positions
  std::vector<graph::Graph> decode;   // by the slots that they run, rising, then by the bound on positions, rising
  std::vector<graph::Graph> verify;   // by the bound on positions, rising; empty without drafts
  std::vector<graph::Graph> score;    // likewise; empty without scoring
  std::vector<std::vector<graph::Graph>>
      group;  // in the order of `all`: the step of every rank; empty unless asked for
  std::map<std::string, Shape> tensors;
  int64_t long_rope_after = 0;  // longer sequences use the long rope factors; 0: never

  /// Every graph that is compiled at start, in that order.
  std::vector<const graph::Graph*> all() const;
  /// The same in the form for a backend. They borrow the graphs.
  std::vector<device::StepGraph> steps() const;
  /// Tokens of the vocabulary.
  int64_t vocabulary() const;
  /// Slots of this rank's caches: all, or its share if each sequence lies on one rank.
  int64_t cache_slots() const;
};

/// Builds the closed set of graphs of `rank`. Pure; `explain` prints them. `passes` may be empty.
Result<ShardGraphs> build_graphs(const checkpoint::ModelSpec& spec, const partition::Partition& partition, int rank,
                                 const ShardOptions& options, const std::vector<graph::Pass>& passes);

/// The collectives of one rank's graphs with their sizes, one a line. Ranks with the same text can run together.
std::string collective_list(const ShardGraphs& graphs);

/// For backends that compile one program for all ranks: every step, in the order of ShardGraphs::all, with its graph of
/// each rank, before passes. Fails as `build_graphs`. Pure.
Result<std::vector<std::vector<graph::Graph>>> graphs_of_group(const checkpoint::ModelSpec& spec,
                                                               const partition::Partition& partition,
                                                               const ShardOptions& options);

}  // namespace lockstep::shards
