#include "shards/cost/group_work.h"

#include <algorithm>
#include <map>
#include <vector>

#include "runtime/graph/passes.h"

namespace lockstep::cost {
namespace {

/// A rank's roots of a sum; 0 for a sum that the partition does not have.
int64_t roots_of(const BlockSplit& split, int rank) {
  return split.bounds.empty() ? 0 : static_cast<int64_t>(split.roots_of(rank).size());
}

/// The inputs of a rank's graph sizes.
std::vector<int64_t> sizes_of(const checkpoint::ModelSpec& spec, const partition::Partition& partition, int rank) {
  const partition::RankPart& part = partition.parts[static_cast<size_t>(rank)];
  const bool sums_by_rank = partition.numerics == partition::Numerics::kFast;
  return {part.heads.query.size(),
          part.heads.key_value.size(),
          part.mlp_columns.size(),
          part.vocabulary.size(),
          part.experts.size(),
          sums_by_rank ? 1 : roots_of(partition.attention_blocks, rank),
          sums_by_rank ? 1 : roots_of(partition.mlp_blocks, rank),
          roots_of(partition.expert_blocks, rank),
          part.key_value_rows.size(),
          partition.shared_expert.of(rank).size(),
          roots_of(partition.shared_expert.blocks, rank),
          partition.dense_layers.of(rank).size(),
          roots_of(partition.dense_layers.blocks, rank),
          part.delta_heads.query.size(),
          part.delta_heads.key_value.size(),
          sums_by_rank ? 1 : roots_of(partition.delta_blocks, rank),
          part.global.heads.size(),
          part.global.rows.size(),
          partition.layer_input_parts(spec)[static_cast<size_t>(rank)]};
}

}  // namespace

int GroupWork::fullest() const {
  const auto most = std::ranges::max_element(ranks, {}, [](const RankWork& rank) { return rank.memory.total(); });
  return static_cast<int>(most - ranks.begin());
}

Result<GroupWork> group_work(const checkpoint::ModelSpec& spec, const partition::Partition& partition,
                             const shards::ShardOptions& options) {
  GroupWork group;
  group.chunk = options.chunk;
  std::map<std::vector<int64_t>, size_t> known;  // sizes, and the first rank with them
  for (int rank = 0; rank < partition.ranks(); ++rank) {
    const auto [found, is_new] = known.try_emplace(sizes_of(spec, partition, rank), group.ranks.size());
    group.like.push_back(static_cast<int>(found->second));
    if (!is_new) {
      group.ranks.push_back(RankWork(group.ranks[found->second]));
      continue;
    }
    LOCKSTEP_TRY(const shards::ShardGraphs graphs,
                 shards::build_graphs(spec, partition, rank, options, graph::default_passes()));
    group.ranks.push_back({step_work(graphs.prefill.back()), step_work(graphs.decode.back()), memory_of(graphs)});
  }
  if (partition.expert_split == partition::ExpertSplit::kWhole) {
    for (const partition::RankPart& part : partition.parts) group.experts_held.push_back(part.experts.size());
    group.experts_chosen = spec.experts_per_token;
  }
  return group;
}

}  // namespace lockstep::cost
