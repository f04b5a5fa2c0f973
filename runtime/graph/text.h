// The text form of a graph: one line per value and node, parsed back without loss.
//
//   graph decode tp=2 rank=0 rows=4 slots=4 {
//     %last_id = state : i32[4]
//     %model.embed_tokens.weight = weight model.embed_tokens.weight[0:24576,0:576] : bf16[24576,576]
//     %12 = linear(%11, %model.layers.0.mlp.down_proj.weight) : bf16[4,576]
//     %13 = all_reduce(%12) blocks=[0,5,9] dtype="bf16" : bf16[4,576]
//     kv_append(%9, %kv.0.k, %slot, %length)
//     output tokens = %57
//   }
#pragma once

#include <string>
#include <string_view>

#include "runtime/graph/graph.h"

namespace lockstep::graph {

std::string to_text(const Graph& graph);

/// Parses and verifies a graph. Fails with `kInvalidArgument` naming line, column and the expected text.
Result<Graph> parse(std::string_view text);

}  // namespace lockstep::graph
