// Rewrites of graphs without a change of meaning. Each is a pure function; the verifier runs after each.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/graph/graph.h"

namespace lockstep::graph {

/// Computes q, k and v of a layer with one matrix product. Linear nodes that share their operand and feed rope,
/// kv_append or attention, directly or through norms, biases, factors and slices, become one linear and `columns`.
Result<Graph> fuse_qkv(const Graph& graph);

/// Computes gate and up of an MLP with one matrix product: the two linears before a gated_activation become one.
Result<Graph> fuse_gate_up(const Graph& graph);

/// A pass and its name.
struct Pass {
  std::string name;
  std::function<Result<Graph>(const Graph&)> run;
};

/// The passes that run before compilation, in order.
std::vector<Pass> default_passes();

/// Runs `passes` in order and verifies after each; the error names the pass.
Result<Graph> run_passes(const Graph& graph, const std::vector<Pass>& passes);

}  // namespace lockstep::graph
