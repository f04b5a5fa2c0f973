// The closed set of graphs of a whole group, for backends that compile one program for all ranks.
#pragma once

#include <vector>

#include "runtime/graph/graph.h"
#include "shards/shard_graphs.h"

namespace lockstep::shards {

/// Every step that is compiled at start, in the order of ShardGraphs::all: its graph of each rank, before passes. Fails
/// as `shards::build_graphs`. Pure.
Result<std::vector<std::vector<graph::Graph>>> graphs_of_group(const checkpoint::ModelSpec& spec,
                                                               const partition::Partition& partition,
                                                               const shards::ShardOptions& options);

}  // namespace lockstep::shards
