// Use of the compiled graphs in a benchmark: how often each was replayed, what it reads, how long its device took.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "shards/cost/step_work.h"
#include "shards/shard.h"

namespace lockstep::launcher {

/// One graph of one rank.
struct GraphUse {
  std::string name;  // "decode rows=1 slots=1"
  int64_t replays = 0;
  int64_t launches = 0;   // kernels and copies of a replay on a device; 0: the host computes
  double bytes = 0.0;     // weights, keys and values that a replay reads, on average over the benchmark's steps
  double device_s = 0.0;  // of a replay on the device, on average; 0: not measured

  friend bool operator==(const GraphUse&, const GraphUse&) = default;
};

/// The graphs of `shard`, in order; `names` are theirs.
std::vector<GraphUse> graph_uses(const shards::Shard& shard, const std::vector<std::string>& names,
                                 const cost::Workload& load);

/// [{"graph", "replays", "launches", "bytes", "device_s"}]; null: not known.
nlohmann::ordered_json to_json(const std::vector<GraphUse>& graphs);
/// A line for each graph.
std::string to_table(const std::vector<GraphUse>& graphs);

}  // namespace lockstep::launcher
