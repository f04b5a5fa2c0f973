#include "shards/group_graphs.h"

#include <utility>

namespace lockstep::shards {

Result<std::vector<std::vector<graph::Graph>>> graphs_of_group(const checkpoint::ModelSpec& spec,
                                                               const partition::Partition& partition,
                                                               const shards::ShardOptions& options) {
  std::vector<std::vector<graph::Graph>> steps;  // [step][rank]
  for (int rank = 0; rank < partition.ranks(); ++rank) {
    LOCKSTEP_TRY(const shards::ShardGraphs own, shards::build_graphs(spec, partition, rank, options, {}));
    const std::vector<const graph::Graph*> graphs = own.all();
    steps.resize(graphs.size());
    for (size_t i = 0; i < graphs.size(); ++i) steps[i].push_back(*graphs[i]);
  }
  return steps;
}

}  // namespace lockstep::shards
